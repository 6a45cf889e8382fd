/**
 * Pages of webviews.
 *
 * Purpose: the one page that every webview of this extension is: a script, a style, nothing else.
 * Invariant: the policy names a fresh nonce and this extension's own files; no connection, image, font or frame is allowed.
 * Must never: hold a text of data.
 */

import { randomBytes } from "node:crypto";
import * as vscode from "vscode";

/** A page that may load its own script and style and nothing else. */
export function page(webview: vscode.Webview, extension: vscode.Uri, name: "panel" | "report"): string {
  const nonce = randomBytes(16).toString("base64");
  const script = webview.asWebviewUri(vscode.Uri.joinPath(extension, "dist", `${name}.js`)).toString();
  const style = webview.asWebviewUri(vscode.Uri.joinPath(extension, "media", `${name}.css`)).toString();
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src ${webview.cspSource}; form-action 'none'; base-uri 'none'`;
  return [
    "<!DOCTYPE html>",
    '<html lang="en"><head><meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    `<link rel="stylesheet" href="${style}"><title>Gloveport</title></head>`,
    `<body><script nonce="${nonce}" src="${script}"></script></body></html>`,
  ].join("\n");
}
