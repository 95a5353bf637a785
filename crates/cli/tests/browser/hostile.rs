//! A job whose names, contents, output and replies all attack the reader. Nothing is executed or fetched,
//! and hidden characters are made visible.

use std::net::TcpListener;

use llm::script::ScriptedReply;
use serde_json::json;
use testkit::{ScriptedAnswer, StreamGate};

use crate::browser::Browser;
use crate::model::{bash, say};
use crate::play::play;
use crate::staging::WebFixture;
use crate::task::with_text;

const TASK: &str = "<script>window.pwned = 1</script><img src=x onerror=\"window.pwned = 1\"> \u{202e}txet \"'><svg onload=window.pwned=1>";

/// Prints everything that a terminal or a page might interpret. `ADDRESS` is where it would call home, and
/// `OVERRIDE` the character that reverses text.
const OUTPUT: &str = r#"python3 - <<'END'
import base64, os
esc = "\x1b"
print(f"{esc}[31mred{esc}[0m {esc}]52;c;{base64.b64encode(b'stolen').decode()}\x07 after the clipboard")
print(f"{esc}]8;;javascript:window.pwned=1\x07a link{esc}]8;;\x07 {esc}]0;a title\x07 {esc}[2J{esc}[H {esc}P1$r\x1b\\ end")
print("<script>window.pwned = 1</script><img src='ADDRESS/img' onerror='window.pwned=1'>")
print("<style>@import 'ADDRESS/css'</style><link rel=stylesheet href='ADDRESS/css2'>")
print("admin\u202egnp.exe \u200bhidden\u2066 \x00 \x9b31m")
names = [
    "<img src=x onerror=window.pwned=1>.txt", "\"><svg onload=window.pwned=1>.html",
    "' onmouseover='window.pwned=1", "invoice\u202efdp.exe", "two\nlines.txt",
    "javascript:window.pwned=1", "&lt;b&gt;.md", "__proto__", "constructor",
]
for name in names:
    with open(name, "w") as file:
        file.write(f"</pre></code><script>window.pwned = 1</script>\n<img src=ADDRESS/file onerror=window.pwned=1>\n{name}\n\u202ereversed\n")
os.symlink("javascript:window.pwned=1", "link<img src=x onerror=window.pwned=1>")
os.mkdir("<iframe srcdoc='<script>parent.pwned=1'>")
with open("evil.svg", "w") as file:
    file.write("<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=1'><script>window.pwned=1</script></svg>")
with open("long.txt", "w") as file:
    file.write("x" * 1_000_000 + "<script>window.pwned=1</script>")
print("y" * 1_000_000)
END"#;

const REPLY: &str = r#"# <img src=ADDRESS/h1 onerror=window.pwned=1>

<script>window.pwned = 1</script><iframe src="javascript:parent.pwned=1"></iframe>

[one](javascript:window.pwned=1) [two](JaVaScRiPt:window.pwned=1) [three](data:text/html,<script>opener.pwned=1</script>)
[four](vbscript:x) [five](java&#115;cript:window.pwned=1) [six]( javascript:window.pwned=1 ) [seven](//evil.example)
![picture](ADDRESS/picture.png) ![](data:image/svg+xml,<svg/onload=window.pwned=1>) <javascript:window.pwned=1>
[ref]: javascript:window.pwned=1
[ref] **<b onclick=window.pwned=1>bold</b>** `<script>window.pwned=1</script>`

```"><img src=ADDRESS/fence onerror=window.pwned=1>
</code></pre><script>window.pwned = 1</script>
```

| <script>window.pwned=1</script> | [x](javascript:window.pwned=1) |
|---|---|
| <img src=x onerror=window.pwned=1> | `|` |

> <style>body{display:none}</style>

&lt;script&gt; OVERRIDEreversed and [a "quoted" \" title](https://example.com/"onmouseover="window.pwned=1 "title\" onclick=\"window.pwned=1")
"#;

/// True if the page contains only what the UI itself creates.
const IS_CLEAN: &str = r"(() => {
    if (window.pwned !== undefined) return false;
    if (document.querySelector('main :is(script, iframe, object, embed, base, meta, link, style, svg[onload], img:not(.picture))')) return false;
    const attributes = all('*').flatMap((one) => [...one.attributes]);
    if (attributes.some(({ name }) => /^on|^srcdoc$|^formaction$/i.test(name))) return false;
    if (all('a[href]').some((link) => !/^(https?|mailto):$/.test(link.protocol))) return false;
    const texts = [document.title, document.body.textContent, ...attributes.map(({ value }) => value)];
    return texts.every((text) => !/[\u202a-\u202e\u2066-\u2069\u200b\u0000\u001b\u009b]/.test(text));
})()";

/// Fails if it is not clean.
async fn assert_clean(browser: &Browser, place: &str) {
    assert_eq!(
        browser.value("window.pwned ?? null").await,
        json!(null),
        "{place}"
    );
    assert_eq!(browser.value(IS_CLEAN).await, true, "{place}");
}

#[test]
fn nothing_that_comes_from_a_sandbox_or_a_model_is_obeyed() {
    play(async {
        let home = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", home.local_addr().unwrap());
        let words = |text: &str| {
            let text = text.replace("ADDRESS", &address);
            text.replace("OVERRIDE", "\u{202e}")
        };
        let gate = StreamGate::new();
        let plan = json!({"steps": [
            {"title": "<img src=x onerror=window.pwned=1> `<script>window.pwned=1</script>` \u{202e}x", "status": "active"},
        ]});
        let stage = WebFixture::new([
            ScriptedAnswer::reply(with_text(&words(REPLY), ScriptedReply::call("plan", plan)))
                .hold(0, &gate),
            bash(&words(OUTPUT)).into(),
            ScriptedReply::call(
                "<img src=x onerror=window.pwned=1>",
                json!({"<b>": "<script>window.pwned=1</script>"}),
            )
            .into(),
            say(&words(REPLY)).into(),
        ])
        .await;
        let id = stage.server.client().schedule_task(TASK).await;

        // Live while it runs; then again from the stored events.
        let browser = stage.open(&format!("/jobs/{id}")).await;
        let permission = json!({"origin": browser.address(), "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]});
        browser
            .command("Browser.grantPermissions", permission)
            .await;
        browser
            .await_value("", "navigator.clipboard.writeText('mine')")
            .await;
        gate.open();
        browser
            .until("seen('.job-page[data-state=complete] .item.outcome')")
            .await;
        assert_clean(&browser, "live").await;
        browser.reload().await;
        browser
            .until("seen('.job-page[data-state=complete] .item.outcome')")
            .await;
        for call in browser.texts(".call-line").await {
            assert!(!call.contains('\u{202e}'), "{call}");
        }
        let title = browser.title().await;
        assert!(
            title.starts_with("<script>window.pwned = 1</script>"),
            "{title}"
        );
        assert_eq!(
            browser.text("h1").await,
            browser
                .value("document.querySelector('h1').textContent")
                .await
        );
        browser
            .value("all('details').forEach((one) => one.open = true)")
            .await;
        browser
            .wait_visible(".call-body .output", "after the clipboard")
            .await;
        browser
            .wait_visible(".call-body .output", "<script>window.pwned = 1</script>")
            .await;
        browser
            .wait_visible(".item.reply", "<script>window.pwned = 1</script>")
            .await;
        browser
            .wait_visible(".item.reply", "⟨U+202E⟩reversed")
            .await;
        assert_clean(&browser, "transcript").await;
        // Only safe addresses became links.
        let links = browser
            .value("all('.reply a').map((one) => one.getAttribute('href'))")
            .await;
        for link in links.as_array().unwrap() {
            let link = link.as_str().unwrap();
            assert!(
                link.starts_with(&address) || link.starts_with("https://example.com/"),
                "{link}"
            );
        }

        browser.click(".tab", "Files").await;
        browser
            .wait_visible(".tree-row", "invoice⟨U+202E⟩fdp.exe")
            .await;
        browser
            .wait_visible(".tree-row", "two⟨U+000A⟩lines.txt")
            .await;
        assert_clean(&browser, "files").await;
        for name in [
            "<img src=x",
            "\"><svg onload",
            "' onmouseover=",
            "__proto__",
            "evil.svg",
            "long.txt",
        ] {
            browser.click("button.tree-row", name).await;
            browser.wait_visible(".viewer-head h2", name).await;
            browser.until("seen('.file-text')").await;
            assert_clean(&browser, name).await;
        }
        browser
            .click(".tree-row[aria-expanded=false]", "<iframe")
            .await;
        browser.until("!seen('.loading')").await;

        browser.click(".tab", "Diff").await;
        browser
            .wait_visible(".diff-row.added", "</pre></code><script>")
            .await;
        browser
            .wait_visible(".diff-row.added", "⟨U+202E⟩reversed")
            .await;
        assert_clean(&browser, "diff").await;
        browser.click(".tab", "Logs").await;
        browser
            .wait_visible(".log", "<script>window.pwned = 1</script>")
            .await;
        assert_clean(&browser, "log").await;
        browser.click(".chip", "Audit log").await;
        browser.wait_visible(".audit", "python3").await;
        assert_clean(&browser, "audit log").await;
        browser.click(".tab", "Details").await;
        browser.wait_visible("#panel-details", "onerror").await;
        assert_clean(&browser, "details").await;

        for (path, ready) in [
            ("/", ".job-row"),
            ("/history", ".job-row"),
            ("/history?q=script", "mark"),
        ] {
            browser.go(path).await;
            browser.wait_visible(ready, "").await;
            assert_clean(&browser, path).await;
        }
        assert_eq!(
            browser
                .await_value("", "navigator.clipboard.readText()")
                .await,
            "mine"
        );

        // A raw download is never rendered as a page of this site.
        let raw = format!("/v1/jobs/{id}/files/raw?path=evil.svg");
        let answer = stage.server.client().get(&raw).send().await.unwrap();
        assert!(
            answer.headers()["content-disposition"]
                .to_str()
                .unwrap()
                .starts_with("attachment")
        );
        assert_eq!(answer.headers()["x-content-type-options"], "nosniff");

        browser.end(&[]).await;
        home.set_nonblocking(true).unwrap();
        assert!(home.accept().is_err(), "something called home");
    });
}
