import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "virtual:colors.css";
import "./styles.css";
import { App } from "./app";
import { startTheme } from "./theme";

startTheme();
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
