import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";
import "virtual:colors.css";
import "./styles.css";
import { App } from "./app";
import { site } from "./site/answers";
import { useSavedPlace, useSavedSearch } from "./site/place";
import { startTheme } from "./theme";

startTheme();
if (site && !window.location.hash) window.location.hash = `/runs/${site.artifact}`;
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <Router hook={useSavedPlace} searchHook={useSavedSearch}>
      <App />
    </Router>
  </StrictMode>,
);
