"""Robots by name: public models from packages, driven by position, standing on a floor."""

from telic.robots.catalogue import robot_names as robot_names
from telic.robots.catalogue import robot_path as robot_path
