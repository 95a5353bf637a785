//! Runs one end of a shared folder, for tests and manual experiments: `end serve FOLDER` or
//! `end mount TARGET`. The channel is standard input. `mount` prints `mounted` when it is done.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [verb, path] = &arguments[..] else {
        return Err("usage: end serve FOLDER, or end mount TARGET".into());
    };
    let channel = std::io::stdin().as_fd().try_clone_to_owned()?;
    match verb.to_str() {
        Some("serve") => share::serve(File::open(path)?.into(), channel)?,
        Some("mount") => {
            let mount = share::mount(channel, Path::new(path))?;
            std::io::stdout().write_all(b"mounted\n")?;
            mount.wait()?;
        }
        _ => return Err("unknown verb: must be `serve` or `mount`".into()),
    }
    Ok(())
}
