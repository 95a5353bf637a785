//! A tmux server for one test, with `hotcell` in its only pane and a shell after it.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::scene::Scene;

/// A UI that takes longer is considered hung. Far longer than needed, even on a busy machine.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(120);
/// The shell's prompt after `hotcell` has ended.
const SHELL_PROMPT: &str = "shell$ ";

static COUNT: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct TmuxScreen {
    socket: String,
    folder: PathBuf,
}

impl TmuxScreen {
    /// `hotcell` with these arguments, in this size.
    #[track_caller]
    pub(crate) fn start(scene: &Scene, width: u16, height: u16, arguments: &[&str]) -> Self {
        Self::start_with(scene, width, height, arguments, &[])
    }

    /// The same, with these variables too.
    #[track_caller]
    pub(crate) fn start_with(
        scene: &Scene,
        width: u16,
        height: u16,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let command = scene.hotcell(arguments.iter().copied());
        Self::open(scene, (width, height), &command, variables)
    }

    /// Any program, in this size.
    #[track_caller]
    pub(crate) fn open(
        scene: &Scene,
        (width, height): (u16, u16),
        command: &Command,
        variables: &[(&str, &str)],
    ) -> Self {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let screen = Self {
            socket: format!("hotcell-test-{}-{count}", std::process::id()),
            folder: scene.place.home(),
        };
        let script = screen.folder.join(format!("start-{count}"));
        fs::write(&script, screen.script(command, variables)).unwrap();
        // No client is attached, so the size stays as set below.
        let options = [
            "set-option -g status off",
            "set-option -g remain-on-exit on",
            "set-option -s escape-time 0",
            "set-option -s set-clipboard on",
        ];
        let config = screen.folder.join(format!("options-{count}"));
        fs::write(&config, options.join("\n")).unwrap();
        let (width, height) = (width.to_string(), height.to_string());
        let mut start = vec!["-f", config.to_str().unwrap(), "-u", "new-session", "-d"];
        let shell = format!("sh {}", script.display());
        start.extend(["-x", &width, "-y", &height, &shell]);
        screen.tmux(&start);
        screen
    }

    /// The command's environment and nothing else, then a shell.
    fn script(&self, command: &Command, variables: &[(&str, &str)]) -> String {
        let quote = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        let own = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)));
        // Variables set by tmux are kept.
        let terminal = ["TERM", "TMUX"].map(|name| format!("{name}=\"${name}\""));
        let words = own
            .chain([("LANG", "C.UTF-8"), ("PS1", SHELL_PROMPT), ("ENV", "")])
            .map(|(name, value)| format!("{name}={}", quote(value)))
            .chain(terminal);
        // The test's variables come last, so they win.
        let named = variables.iter();
        let words = words.chain(named.map(|(name, value)| format!("{name}={}", quote(value))));
        let environment: Vec<String> = words.collect();
        let program = [command.get_program()]
            .into_iter()
            .chain(command.get_args());
        let program: Vec<String> = program.map(|word| quote(word.to_str().unwrap())).collect();
        format!(
            "cd {here}\nenv -i {environment} sh -c 'echo $$ >\"$0\"; exec \"$@\"' {pid} {program}\n\
             echo \"left with $?\"\nexec env -i {environment} sh -i\n",
            here = quote(command.get_current_dir().unwrap().to_str().unwrap()),
            environment = environment.join(" "),
            pid = quote(self.pid_file().to_str().unwrap()),
            program = program.join(" "),
        )
    }

    fn pid_file(&self) -> PathBuf {
        self.folder.join(format!("{}.pid", self.socket))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// The pid of the program, once it shows something.
    pub(crate) fn pid(&self) -> i32 {
        let pid = fs::read_to_string(self.pid_file()).unwrap();
        pid.trim().parse().unwrap()
    }

    /// A tmux format of the pane, such as `#{pane_title}`.
    pub(crate) fn ask(&self, format: &str) -> String {
        let answer = self.tmux(&["display-message", "-p", format]);
        answer.trim_end_matches('\n').to_owned()
    }

    /// Whether anything was ever copied.
    pub(crate) fn has_clipboard(&self) -> bool {
        !self.tmux(&["list-buffers"]).is_empty()
    }

    /// Records the program's output from now on.
    pub(crate) fn record(&self) -> PathBuf {
        let file = self.folder.join(format!("{}.record", self.socket));
        self.tmux(&["pipe-pane", &format!("exec cat >'{}'", file.display())]);
        file
    }

    /// Closes the terminal under the program.
    pub(crate) fn close(self) {
        self.tmux(&["kill-server"]);
    }

    /// Types text.
    pub(crate) fn write(&self, text: &str) {
        self.tmux(&["send-keys", "-l", "--", text]);
    }

    /// Presses keys by their tmux names: `Enter`, `C-c`, `M-x`, `PageUp`.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys", "--"], keys].concat());
    }

    /// Types text and sends it.
    pub(crate) fn say(&self, text: &str) {
        self.write(text);
        self.press(&["Enter"]);
    }

    /// Pastes text in bracketed mode.
    pub(crate) fn paste(&self, text: &str) {
        let mut load = self.command(&["load-buffer", "-"]);
        let mut child = load.stdin(Stdio::piped()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        assert!(child.wait().unwrap().success());
        self.tmux(&["paste-buffer", "-p", "-d", "-r"]);
    }

    pub(crate) fn resize(&self, width: u16, height: u16) {
        let size = [width.to_string(), height.to_string()];
        self.tmux(&["resize-window", "-x", &size[0], "-y", &size[1]]);
    }

    /// The text on the screen, without trailing blanks.
    pub(crate) fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The same with its styles.
    pub(crate) fn styled(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// The text that was copied last.
    pub(crate) fn clipboard(&self) -> String {
        self.tmux(&["show-buffer"])
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait_until(text, |screen| screen.contains(text));
    }

    #[track_caller]
    pub(crate) fn wait_gone(&self, text: &str) {
        self.wait_until(&format!("no {text}"), |screen| !screen.contains(text));
    }

    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, mut is_so: impl FnMut(&str) -> bool) {
        let give_up = Instant::now() + SCREEN_TIMEOUT;
        loop {
            let text = self.text();
            if is_so(&text) {
                return;
            }
            assert!(Instant::now() < give_up, "never: {what}\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Goes back to an empty editor. Waits, so that the next letter is not combined with the escape, as Alt
    /// is sent.
    #[track_caller]
    pub(crate) fn escape(&self) {
        self.press(&["Escape"]);
        self.wait_until("the editor", |text| {
            let is_elsewhere = ["esc back", "esc ends", "esc close"];
            let is_here = !is_elsewhere.iter().any(|words| text.contains(words));
            is_here && text.lines().any(|line| line == ">")
        });
    }

    /// Asserts that a full redraw changes nothing. Requires an idle agent and an empty editor.
    #[track_caller]
    pub(crate) fn assert_intact(&self) {
        self.write("intac");
        self.wait_for("intac");
        let mut before = self.text();
        // A drawing may be in progress.
        self.wait_until("the same twice", |text| {
            std::mem::replace(&mut before, text.to_owned()) == text
        });
        self.press(&["C-l"]);
        self.write("t");
        self.wait_for("intact");
        self.wait_until(&format!("the same again:\n{before}\nbut"), |text| {
            text.replace("intact", "intac") == before
        });
        self.press(&["BSpace"; 6]);
        self.wait_gone("inta");
    }

    /// Waits for the end of `hotcell`, and checks that the terminal is restored: main screen, visible cursor,
    /// echo and line mode.
    #[track_caller]
    pub(crate) fn assert_left(&self, code: i32) {
        self.wait_for(&format!("left with {code}\n"));
        self.wait_for(SHELL_PROMPT.trim_end());
        self.say("echo echoed $((40 + 2))");
        self.wait_for("echo echoed $((40 + 2))\nechoed 42\n");
        let flags = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_flag}";
        assert_eq!(
            self.tmux(&["display-message", "-p", flags]).trim(),
            "0 1 0 0"
        );
    }

    #[track_caller]
    fn tmux(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(output.status.success(), "tmux {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .env("TMUX_TMPDIR", &self.folder)
            .args(["-L", &self.socket])
            .args(arguments);
        tmux
    }
}

impl Drop for TmuxScreen {
    fn drop(&mut self) {
        // Printed last when a test fails.
        if std::thread::panicking() {
            let shown = self.command(&["capture-pane", "-p"]).output();
            let text = shown.map(|shown| String::from_utf8_lossy(&shown.stdout).into_owned());
            let _ = writeln!(
                std::io::stderr(),
                "the screen:\n{}",
                text.unwrap_or_default()
            );
        }
        let _ = self.command(&["kill-server"]).output();
    }
}
