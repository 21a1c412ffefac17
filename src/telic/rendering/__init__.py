"""Images and videos of recorded episodes, rendered in a separate process."""

from telic.rendering.job import Rendering, RenderJob
from telic.rendering.jobs import choose_backend, draw_portrait, render, render_one

__all__ = ["RenderJob", "Rendering", "choose_backend", "draw_portrait", "render", "render_one"]
