// Parses a unified diff into hunks of numbered lines. Never fails: lines outside of hunks become
// notes.

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$/;

/**
 * @param {string} text
 * @returns {{rows: Array<{kind: "hunk"|"same"|"added"|"removed"|"note", text: string, old?: number, new?: number}>, added: number, removed: number}}
 */
export function parseDiff(text) {
  const rows = [];
  let added = 0;
  let removed = 0;
  let before = 0;
  let after = 0;
  let isInside = false;
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  for (const line of lines) {
    const hunk = HUNK.exec(line);
    if (hunk) {
      before = Number(hunk[1]);
      after = Number(hunk[2]);
      isInside = true;
      rows.push({ kind: "hunk", text: line });
    } else if (!isInside) {
      if (!/^(---|\+\+\+|diff |index )/.test(line)) rows.push({ kind: "note", text: line });
    } else if (line.startsWith("+")) {
      rows.push({ kind: "added", text: line.slice(1), new: after });
      after += 1;
      added += 1;
    } else if (line.startsWith("-")) {
      rows.push({ kind: "removed", text: line.slice(1), old: before });
      before += 1;
      removed += 1;
    } else if (line.startsWith(" ") || line === "") {
      rows.push({ kind: "same", text: line.slice(1), old: before, new: after });
      before += 1;
      after += 1;
    } else {
      rows.push({ kind: "note", text: line.replace(/^\\ /, "") });
    }
  }
  return { rows, added, removed };
}
