"""What comes with other behaviours: staying on one's feet, going straight, being quiet."""

from __future__ import annotations

from telic.composer.draft import Draft
from telic.composer.scene import Scene


def stay_straight(scene: Scene, draft: Draft, quantity: str) -> None:
    """Do not go aside, where that is possible."""
    other = "lateral_velocity" if quantity == "forward_velocity" else "forward_velocity"
    if scene.has(other, "lateral_velocity"):
        draft.need(f"aside = quantities.{other}(info)")
        draft.add("straight", "-aside.abs().clamp(max=2.0)", 0.2, "not going aside", r"-|v_y|")


def rest_height(scene: Scene, draft: Draft) -> None:
    """Keep the height of the resting pose."""
    if not scene.has("height_above_start"):
        return
    draft.need("lift = quantities.height_above_start(info)")
    draft.add(
        "posture", "torch.exp(-20.0 * lift**2)", 0.5, "at its resting height", r"e^{-20\Delta h^2}"
    )
    draft.measure('lift = episode["height_above_start"]')
    code = "leaf(episode.share(np.abs(lift) < 0.25), zero=0.3, goal=0.8, weight=1.0, "
    draft.judge("keeps its height", code + 'tag="falls")')


def stay_on_feet(scene: Scene, draft: Draft) -> None:
    """Guard against sliding on the back and against ending early."""
    if scene.can_fall:
        draft.env_args.setdefault("terminate_when_unhealthy", True)
        draft.add("alive", "torch.ones_like(action[:, 0])", 0.3, "still on its feet", "1")
        code = "guard(episode.seconds / episode.full_seconds, zero=0.2, goal=0.9, "
        draft.judge("does not end early", code + 'tag="falls")')
    elif scene.has("uprightness", "height_above_start"):
        draft.need("upright = quantities.uprightness(info)")
        draft.add("upright", "upright.clamp(-1.0, 1.0)", 0.2, "the right way up", r"\cos\theta")
        code = 'guard(episode.share(episode["uprightness"] > 0.2), zero=0.3, goal=0.8, '
        draft.judge("is not on its back", code + 'tag="falls")')


def be_quiet(draft: Draft) -> None:
    """Add the small penalty that keeps learning healthy."""
    draft.need("effort = action.square().mean(-1)")
    draft.add("control", "-effort", 0.1, "mean squared action, as a cost", r"-\overline{a^2}")
