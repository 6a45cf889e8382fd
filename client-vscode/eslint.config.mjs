// Rules that the compiler does not hold; formatting is prettier's.
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist/**", "node_modules/**", "scripts/**", "*.mjs", "*.config.ts", "e2e/*.config.ts"] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      parserOptions: { project: ["./tsconfig.json", "./tsconfig.webview.json", "./tsconfig.e2e.json"], tsconfigRootDir: import.meta.dirname },
    },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      "@typescript-eslint/no-confusing-void-expression": "off",
      "@typescript-eslint/no-unnecessary-condition": "off",
      "@typescript-eslint/non-nullable-type-assertion-style": "off",
      "max-lines": ["error", { max: 500 }],
      "max-lines-per-function": ["error", { max: 70 }],
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Build elements: webview/dom.ts." },
        { property: "outerHTML", message: "Build elements: webview/dom.ts." },
        { property: "insertAdjacentHTML", message: "Build elements: webview/dom.ts." },
      ],
    },
  },
  {
    files: ["src/vscode/**/*.ts"],
    ignores: ["src/vscode/tell.ts"],
    rules: {
      "no-restricted-syntax": [
        "error",
        {
          selector: "MemberExpression[property.name=/^show(Error|Warning|Information)Message$/]",
          message: "A notification makes links of data: vscode/tell.ts.",
        },
      ],
    },
  },
  {
    files: ["src/common/**/*.ts"],
    rules: { "no-restricted-globals": ["error", "process", "window", "document", "console", "setTimeout", "fetch", "Date"] },
  },
  {
    files: ["test/**/*.ts", "e2e/**/*.ts"],
    rules: {
      "@typescript-eslint/no-floating-promises": "off",
      "max-lines-per-function": "off",
      "@typescript-eslint/no-non-null-assertion": "off",
      "@typescript-eslint/require-await": "off",
    },
  },
);
