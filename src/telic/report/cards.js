// Show the cards of one outcome; play a video only while it can be seen.
const cards = [...document.querySelectorAll(".card")];
const buttons = [...document.querySelectorAll("nav button[data-show]")];
for (const button of buttons) {
  button.addEventListener("click", () => {
    for (const each of buttons) each.setAttribute("aria-pressed", String(each === button));
    const wanted = button.dataset.show;
    for (const card of cards) card.hidden = wanted !== "" && card.dataset.state !== wanted;
  });
}
if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) target.play().catch(() => {});
      else target.pause();
    }
  });
  for (const video of document.querySelectorAll("video")) watch.observe(video);
}
