// Counts what a recorded run saved: from the raw messages alone, with another tokenizer.
// Usage: node recount.mjs NODE_MODULES RECORD; each line of RECORD is one exchange, as the server
// itself answered (`direct`) and as a client behind the proxy was answered (`got`).
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, record] = process.argv.slice(2);
const { getEncoding } = createRequire(`${modules}/`)("js-tiktoken");
const o200k = getEncoding("o200k_base");
const count = (text) => o200k.encode(text, "all").length;
const texts = (result) => result.content.filter((block) => block.type === "text").map((block) => block.text);

// What a client hands to a model: the structured form where there is one, unless it only wraps the
// text; all texts otherwise.
const visibleTexts = (result) => {
  const all = texts(result);
  const values = Object.values(result.structuredContent ?? {});
  if (!result.structuredContent || (all.length === 1 && values.length === 1 && values[0] === all[0])) return all;
  return [JSON.stringify(result.structuredContent)];
};
const tokens = (all) => all.reduce((sum, text) => sum + count(text), 0);
const defined = ({ tools }) =>
  tokens(tools.flatMap((tool) => [tool.name, tool.description ?? "", JSON.stringify(tool.inputSchema)]));

// What a client passes on of a result with so many tokens: Claude Code the first 2,000 characters of more
// than 25,000, Codex 10,000. Other clients have no limit here.
const passed = (client, all) => {
  if (client === "claude-code") return all > 25000 ? 500 : all;
  if (client === "codex-mcp-client") return Math.min(all, 10000);
  return all;
};

const sum = { calls: 0, results: 0, inline: 0, visible_tokens: 0, without_limit: 0, descriptors: 0, questions_answered: 0, questions_failed: 0, replies: 0, definitions: 0 };
for (const line of readFileSync(record, "utf8").trim().split("\n")) {
  const { kind, client, direct, got } = JSON.parse(line);
  if (kind === "listing") {
    sum.definitions += defined(got) - defined(direct);
    continue;
  }
  sum.calls += 1;
  if (kind === "question") {
    sum[got.isError ? "questions_failed" : "questions_answered"] += 1;
    sum.replies += tokens(texts(got));
  } else if (got.structuredContent?.lro?.ref ?? texts(got)[0]?.startsWith('{"lro":{"ref":"lro:')) {
    sum.results += 1;
    const all = tokens(visibleTexts(direct));
    sum.inline += all;
    sum.visible_tokens += passed(client, all);
    sum.without_limit += client === "another-client" ? 1 : 0;
    sum.descriptors += tokens(texts(got));
  }
}
const costs = sum.descriptors + sum.replies + sum.definitions;
sum.net_tokens = sum.visible_tokens - costs;
sum.net_tokens_of_whole_results = sum.inline - costs;
console.log(JSON.stringify(sum));
