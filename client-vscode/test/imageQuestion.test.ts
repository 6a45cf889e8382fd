import { expect, test } from "vitest";
import { imageQuestion } from "../src/common/imageQuestion.ts";

const digest = `sha256:${"ab".repeat(32)}`;
const image = {
  registry: "registry.example.org",
  name: "team/app",
  tag: "latest",
  digest,
  reference: `registry.example.org/team/app@${digest}`,
  question: "Use it?",
  sandboxes: ["docker"],
};
const asked = { path: ".devcontainer.json", image, ignored: ["mounts"], words: `By its digest ${digest}. Use it?\nIgnored: mounts.`, inUse: "" };

test("an image is asked with registry and digest, and what is ignored", () => {
  const question = imageQuestion(asked, "docker");
  expect(question?.title).toContain("registry.example.org");
  expect(question?.detail).toContain(digest);
  expect(question?.detail).toContain("mounts");
  expect(question?.reference).toBe(image.reference);
});

test("nothing is asked without an image, or for a sandbox that has none", () => {
  expect(imageQuestion({ ...asked, image: null }, "docker")).toBeNull();
  expect(imageQuestion(asked, "bubblewrap")).toBeNull();
});
