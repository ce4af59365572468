// The rules of HOUSE.md that a linter can hold. Import rules live in scripts/check-house.mjs.
import tseslint from "typescript-eslint";
import { maxOwnLines } from "./scripts/lint-own-lines.mjs";

export default tseslint.config(
  { ignores: ["**/dist/**", "**/node_modules/**", "data*/**", "**/*.mjs", "**/*.js"] },
  {
    files: ["packages/**/*.ts", "server/**/*.ts", "cli/**/*.ts", "bench/**/*.ts"],
    languageOptions: {
      parser: tseslint.parser,
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    plugins: { ts: tseslint.plugin, house: { rules: { "max-own-lines": maxOwnLines } } },
    rules: {
      "ts/no-floating-promises": [
        "error",
        {
          ignoreVoid: true,
          allowForKnownSafeCalls: [
            {
              from: "package",
              package: "node:test",
              name: ["test", "describe", "it", "before", "after", "beforeEach", "afterEach"],
            },
          ],
        },
      ],
      "ts/no-misused-promises": "error",
      "ts/await-thenable": "error",
      "ts/switch-exhaustiveness-check": "error",
      "ts/no-explicit-any": "error",
      "ts/no-non-null-assertion": "error",
      "max-lines": ["error", { max: 400 }],
      "house/max-own-lines": ["error", { max: 60 }],
      "max-params": ["error", { max: 4 }],
      "no-console": "error",
      eqeqeq: "error",
      "no-eval": "error",
      "no-control-regex": "off",
    },
  },
  {
    files: ["**/*.test.ts", "server/test/**/*.ts", "packages/*/test/**/*.ts"],
    rules: { "house/max-own-lines": "off", "max-lines": "off" },
  },
  { files: ["cli/**/*.ts", "bench/**/*.ts"], rules: { "no-console": "off" } },
);
