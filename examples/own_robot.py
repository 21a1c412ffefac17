"""Train your own robot from its MJCF file."""

from pathlib import Path

import telic

ROBOT = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <light pos="0 0 3"/> <geom type="plane" size="10 10 1"/>
    <body name="box" pos="0 0 0.2">
      <joint name="x" type="slide" axis="1 0 0"/>
      <geom type="box" size="0.1 0.1 0.1" mass="1"/>
    </body>
  </worldbody>
  <actuator> <motor name="push" joint="x" gear="5" ctrlrange="-1 1"/> </actuator>
</mujoco>
"""

if __name__ == "__main__":
    Path("cart.xml").write_text(ROBOT)
    run = telic.train("cart.xml", steps=10_000, videos="none")
    print(f"{run.status}: return {run.best_return:.1f}")
