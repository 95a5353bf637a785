// The highlighter's language tables: patterns for comments and strings, and keywords. Only data.

const words = (text) => new Set(text.trim().split(/\s+/));

const SLASHES = /\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)/y;
const HASHES = /#[^\n]*/y;
const QUOTES = /"(?:[^"\\\n]|\\[^])*"?|'(?:[^'\\\n]|\\[^])*'?/y;
const NUMBER =
  /\b(?:0[xX][\da-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)[a-zA-Z_\d]*\b/y;

const javascript = {
  comment: SLASHES,
  string: /"(?:[^"\\\n]|\\[^])*"?|'(?:[^'\\\n]|\\[^])*'?|`(?:[^`\\]|\\[^])*`?/y,
  number: NUMBER,
  keywords: words(`
    as async await break case catch class const continue debugger default delete do else enum export
    extends finally for from function get if implements import in instanceof interface let new of
    private protected public readonly return satisfies set static super switch this throw try type
    typeof var void while with yield
  `),
  constants: words("true false null undefined NaN Infinity"),
};

const rust = {
  comment: SLASHES,
  string:
    /b?r(#{0,4})"[^]*?(?:"\1|$)|b?"(?:[^"\\]|\\[^])*"?|b?'(?:[^'\\\n]|\\(?:x[\da-fA-F]{2}|u\{[\da-fA-F]{1,6}\}|[^\n]))'/y,
  number: NUMBER,
  special: /#!?\[[^\]\n]*\]|'[a-z_]\w*|\b[a-z_]\w*!/y,
  keywords: words(`
    as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod
    move mut pub ref return self Self static struct super trait type union unsafe use where while yield
  `),
  constants: words("true false None Some Ok Err"),
};

const python = {
  comment: HASHES,
  string:
    /[rbfuRBFU]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:[^"\\\n]|\\[^])*"?|'(?:[^'\\\n]|\\[^])*'?)/y,
  number: NUMBER,
  special: /@[\w.]+/y,
  keywords: words(`
    and as assert async await break case class continue def del elif else except finally for from global
    if import in is lambda match nonlocal not or pass raise return try while with yield self
  `),
  constants: words("True False None"),
};

const shell = {
  comment: /(?<=^|\s)#[^\n]*/y,
  string: /"(?:[^"\\]|\\[^])*"?|'[^']*'?/y,
  number: /(?<=^|\s)\d+\b/y,
  special: /\$(?:\w+|\{[^}\n]*\}?|[?!#@*$-])|(?<=\s)--?[A-Za-z][\w-]*/y,
  keywords: words(`
    if then else elif fi for while until do done case esac in function return local export readonly set
    unset shift exit trap source eval exec cd echo sudo
  `),
  constants: words("true false"),
};

const c = {
  comment: SLASHES,
  string: QUOTES,
  number: NUMBER,
  special: /(?<=^[ \t]*)#[ \t]*\w+/my,
  keywords: words(`
    alignas auto bool break case catch char class const constexpr continue default delete do double else
    enum explicit extern float for friend if inline int long namespace new noexcept operator override
    private protected public register return short signed sizeof static struct switch template this
    throw try typedef typename union unsigned using virtual void volatile while
  `),
  constants: words("true false NULL nullptr"),
};

const go = {
  comment: SLASHES,
  string: /"(?:[^"\\\n]|\\[^])*"?|`[^`]*`?|'(?:[^'\\\n]|\\[^])*'?/y,
  number: NUMBER,
  keywords: words(`
    break case chan const continue default defer else fallthrough for func go goto if import interface
    map package range return select struct switch type var any bool byte error float32 float64 int int32
    int64 rune string uint uint64
  `),
  constants: words("true false nil iota"),
};

const java = {
  comment: SLASHES,
  string: QUOTES,
  number: NUMBER,
  special: /@\w+/y,
  keywords: words(`
    abstract boolean break byte case catch char class const continue default do double else enum extends
    final finally float for fun if implements import instanceof int interface long native new object
    open override package private protected public return short static super switch this throw throws
    try val var void when while
  `),
  constants: words("true false null"),
};

const sql = {
  comment: /--[^\n]*|\/\*[^]*?(?:\*\/|$)/y,
  string: /'(?:[^']|'')*'?/y,
  number: NUMBER,
  keywords: words(`
    add all alter and as asc begin by case check column commit constraint create cross database default
    delete desc distinct drop else end exists foreign from full group having if in index inner insert
    into is join key left like limit not on or order outer primary references right rollback select set
    table then transaction union unique update using values view when where with ADD ALL ALTER AND AS
    ASC BEGIN BY CASE CHECK COLUMN COMMIT CONSTRAINT CREATE DEFAULT DELETE DESC DISTINCT DROP ELSE END
    EXISTS FOREIGN FROM GROUP HAVING IF IN INDEX INNER INSERT INTO IS JOIN KEY LEFT LIKE LIMIT NOT ON OR
    ORDER PRIMARY REFERENCES SELECT SET TABLE THEN UNION UNIQUE UPDATE USING VALUES WHEN WHERE WITH
  `),
  constants: words("true false null NULL"),
};

const json = {
  comment: SLASHES,
  property: /"(?:[^"\\\n]|\\[^])*"(?=\s*:)/y,
  string: /"(?:[^"\\\n]|\\[^])*"?/y,
  number: /-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b/y,
  keywords: new Set(),
  constants: words("true false null"),
};

const settings = {
  comment: /(?<=^|\s)#[^\n]*/y,
  special: /(?<=^[ \t]*)\[[^\]\n]*\]+|(?<=^[ \t]*)---[^\n]*/my,
  property: /(?<=^[ \t]*(?:- )?)[\w."'-]+(?=[ \t]*[:=])/my,
  string: /"""[^]*?(?:"""|$)|"(?:[^"\\\n]|\\[^])*"?|'[^'\n]*'?/y,
  number: NUMBER,
  keywords: new Set(),
  constants: words("true false null yes no on off"),
};

const markup = {
  comment: /<!--[^]*?(?:-->|$)/y,
  keyword: /<\/?[A-Za-z][\w:-]*|\/?>/y,
  property: /(?<=\s)[\w:@.-]+(?=\s*=)/y,
  string: /(?<==\s*)(?:"[^"]*"?|'[^']*'?)/y,
  special: /&#?\w{1,31};|<![^>\n]*>/y,
  keywords: new Set(),
  constants: new Set(),
};

const styles = {
  comment: /\/\*[^]*?(?:\*\/|$)/y,
  string: QUOTES,
  special: /@[\w-]+|#[\da-fA-F]{3,8}\b|--[\w-]+/y,
  property: /(?<![\w-])[\w-]+(?=\s*:\s)/y,
  number: /-?\b\d+(?:\.\d+)?(?:%|[a-z]+)?/y,
  keywords: new Set(),
  constants: words("important inherit initial none auto"),
};

const dockerfile = {
  ...shell,
  keywords: words(`
    FROM RUN CMD COPY ADD ENV ARG WORKDIR EXPOSE ENTRYPOINT USER VOLUME LABEL HEALTHCHECK SHELL AS
  `),
};

const NAMES = {
  rust: [rust, "rust rs"],
  python: [python, "python py python3 pyi"],
  javascript: [javascript, "javascript js jsx mjs cjs typescript ts tsx mts node deno"],
  json: [json, "json jsonc json5 jsonl webmanifest ipynb"],
  settings: [settings, "toml yaml yml ini conf cfg env properties lock"],
  shell: [shell, "sh bash zsh shell console fish makefile mk"],
  c: [c, "c h cpp cc cxx hpp c++ cs csharp objc"],
  go: [go, "go golang"],
  java: [java, "java kt kotlin scala swift dart php"],
  sql: [sql, "sql sqlite psql postgres"],
  markup: [markup, "html htm xml svg vue xhtml"],
  styles: [styles, "css scss less"],
  dockerfile: [dockerfile, "dockerfile containerfile"],
};

const LANGUAGES = new Map(
  Object.values(NAMES).flatMap(([language, names]) => names.split(" ").map((name) => [name, language])),
);

/** The table of a language, by its name or a file extension; undefined if unknown. */
export function languageOf(name) {
  return LANGUAGES.get(name.toLowerCase());
}

/** The language name of a file. */
export function languageOfFile(path) {
  const name = path.split("/").at(-1).toLowerCase();
  if (/^(dockerfile|containerfile|makefile)/.test(name)) return name.split(".")[0];
  return name.includes(".") ? name.split(".").at(-1) : "";
}
