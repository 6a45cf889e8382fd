/**
 * What a VS Code of the tests is given.
 *
 * Purpose: settings that keep it still, flags that keep its browser on this machine.
 * Invariant: it reaches nothing but this machine, and nothing in it moves by itself.
 * Must never: set what a test is about.
 */

export const SETTINGS = {
  "telemetry.telemetryLevel": "off",
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "workbench.welcomePage.walkthroughs.openOnInstall": false,
  "workbench.colorTheme": "Default Dark Modern",
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "workbench.enableExperiments": false,
  "workbench.reduceMotion": "on", // what fades in or out is there, but takes no key
  "update.mode": "none",
  "extensions.autoUpdate": false,
  "extensions.autoCheckUpdates": false,
  "extensions.ignoreRecommendations": true,
  "chat.disableAIFeatures": true,
  "window.commandCenter": false,
  "window.title": "${activeEditorShort}${separator}${rootName}",
  "window.confirmBeforeClose": "never",
  "editor.minimap.enabled": false,
  "diffEditor.codeLens": true,
  "files.autoSave": "off",
  "git.enabled": false,
  "security.workspace.trust.enabled": true,
  "security.workspace.trust.startupPrompt": "always",
};

export const BROWSER_FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-dev-shm-usage",
  "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
];
