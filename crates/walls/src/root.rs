//! The root that commands see: built from nothing, so that nothing of the host is in it but
//! what the plan names.
//!
//! Every host path is opened first, as a detached mount, while the host's tree is in sight.
//! Then the host's tree is let go for good, and the new root is furnished by paths that can
//! only lead inside. Entry points: [`open_supplied`] outside, [`Unfinished`] in process 1.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use libc::{MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID, MOUNT_ATTR_RDONLY};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::fstat;
use nix::unistd::pivot_root;

use crate::apart;
use crate::plan::{Access, Behind, Fitting, IdMap, Plan, Program, Root, Stage};
use crate::supervisor::{At, Step};
use crate::sys;

/// Detached mounts, by the path inside at which they will stand.
pub(crate) type Trees = BTreeMap<PathBuf, OwnedFd>;

/// Options of the file system of terminals, of which all sandboxes share what the machine has.
pub(crate) const TERMINALS: &str = "newinstance,ptmxmode=0666,mode=0620,max=64";

/// Where an image's own folder stands before the overlay covers it.
const LOWER: &str = "/lower";

/// Opens the sources that need the host's own rights. Called by the supervisor; `userns_for` makes
/// a user namespace with the wanted mapping.
pub(crate) fn open_supplied(
    plan: &Plan,
    mut userns_for: impl FnMut(IdMap) -> Step<OwnedFd>,
) -> Step<Trees> {
    let mut trees = Trees::new();
    for source in sources(plan) {
        let tree = match source.opener {
            Opener::Inside => continue,
            Opener::Supervisor => open(source.path, source.access)?,
            Opener::Mapped(idmap) => {
                let userns = userns_for(idmap)?;
                let path = source.path.display();
                let tree = open_source(source.path, source.access)
                    .at(Stage::Mounts, format!("open `{path}`"))?;
                sys::mount_setattr(&tree, attributes(source.access), Some(&userns))
                    .at(Stage::Mounts, format!("map the owner of `{path}`"))?;
                tree
            }
        };
        trees.insert(source.target.to_owned(), tree);
    }
    Ok(trees)
}

/// A host path that will stand in the root.
struct Source<'a> {
    path: &'a Path,
    target: &'a Path,
    access: Access,
    opener: Opener,
}

/// With whose rights a path is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opener {
    /// Process 1's, which are those of the sandbox's user.
    Inside,
    Supervisor,
    /// The supervisor's, with a mapping of owners.
    Mapped(IdMap),
}

impl From<Option<IdMap>> for Opener {
    fn from(idmap: Option<IdMap>) -> Self {
        idmap.map_or(Self::Inside, Self::Mapped)
    }
}

fn sources(plan: &Plan) -> impl Iterator<Item = Source<'_>> {
    let image = match &plan.root {
        Root::Image { folder, idmap, .. } => Some(Source {
            path: folder,
            target: Path::new(LOWER),
            access: Access::ReadOnly,
            opener: (*idmap).into(),
        }),
        Root::Empty => None,
    };
    image
        .into_iter()
        .chain(plan.fittings.iter().filter_map(source))
}

fn source(fitting: &Fitting) -> Option<Source<'_>> {
    match fitting {
        Fitting::Bind {
            source,
            target,
            access,
            idmap,
        } => Some(Source {
            path: source,
            target,
            access: *access,
            opener: (*idmap).into(),
        }),
        Fitting::Kept { source, target } => Some(Source {
            path: source,
            target,
            access: Access::ReadOnly,
            opener: Opener::Supervisor,
        }),
        _ => None,
    }
}

/// What commands may change is opened at its real path: a link that another sandbox put there after
/// it was looked at would lead elsewhere.
pub(crate) fn open_source(path: &Path, access: Access) -> io::Result<OwnedFd> {
    match access {
        Access::ReadWrite => sys::open_real_tree(path),
        Access::ReadOnly | Access::ReadOnlyOverlay | Access::Device => sys::open_tree(path),
    }
}

fn open(source: &Path, access: Access) -> Step<OwnedFd> {
    open_source(source, access)
        .and_then(|tree| sys::mount_setattr(&tree, attributes(access), None).map(|()| tree))
        .at(Stage::Mounts, format!("open `{}`", source.display()))
}

/// While the host's own /proc is in sight: the kernel asks for that.
fn add_procs(trees: &mut Trees, fittings: &[Fitting]) -> Step<()> {
    for fitting in fittings {
        if let Fitting::Proc { target } = fitting {
            trees.insert(target.clone(), new_proc()?);
        }
    }
    Ok(())
}

pub(crate) fn attributes(access: Access) -> u64 {
    match access {
        Access::ReadOnly | Access::ReadOnlyOverlay => {
            MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV
        }
        Access::ReadWrite => MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        Access::Device => MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
    }
}

/// Places inside of what [`open_supplied`] opens, in the same order.
pub(crate) fn supplied_targets(plan: &Plan) -> impl Iterator<Item = &Path> {
    let supplied = sources(plan).filter(|source| source.opener != Opener::Inside);
    supplied.map(|source| source.target)
}

/// A root that lacks only what the supervisor supplies.
pub(crate) struct Unfinished {
    trees: Trees,
    /// Folders, as they are called inside, that have been opened through an overlay.
    apart: Vec<PathBuf>,
    copies: Copies,
    /// Of the root around it, if there is one.
    outer: Trees,
}

impl Unfinished {
    /// Opens what the root is made of, lets the host's tree go, and furnishes what it can.
    /// Runs in the new mount namespace.
    pub(crate) fn build(plan: &Plan) -> Step<Self> {
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
            .at(Stage::Mounts, "make mounts private")?;
        let new_root = mount_new_root(16 * 1024 * 1024)?;
        let apart = overlay_programs(plan, new_root)?;
        let mut trees = Trees::new();
        for source in sources(plan).filter(|source| source.opener == Opener::Inside) {
            trees.insert(source.target.to_owned(), open(source.path, source.access)?);
        }
        add_procs(&mut trees, &plan.fittings)?;
        let mut outer = Trees::new();
        if let Some(program) = &plan.program {
            for source in program.fittings.iter().filter_map(source) {
                outer.insert(source.target.to_owned(), open(source.path, source.access)?);
            }
            add_procs(&mut outer, &program.fittings)?;
        }
        let copies = read_copies(plan)?;
        change_root(new_root)?;
        let unfinished = Self {
            trees,
            apart,
            copies,
            outer,
        };
        if plan.root == Root::Empty {
            unfinished.furnish(plan, |fitting| !is_supplied(fitting))?;
        }
        Ok(unfinished)
    }

    /// Adds what was supplied, and closes the root.
    pub(crate) fn finish(mut self, plan: &Plan, supplied: Trees) -> Step<()> {
        self.trees.extend(supplied);
        match &plan.root {
            Root::Image { overlay_bytes, .. } => {
                enter_overlay(&mut self.trees, *overlay_bytes)?;
                self.furnish(plan, |_| true)?;
                set_apart(plan, &self.apart)?;
            }
            Root::Empty => {
                self.furnish(plan, is_supplied)?;
                set_apart(plan, &self.apart)?;
                close_root()?;
            }
        }
        match &plan.program {
            Some(program) => surround(program, &self.outer),
            None => Ok(()),
        }
    }

    fn furnish(&self, plan: &Plan, which: impl Fn(&Fitting) -> bool) -> Step<()> {
        for fitting in plan.fittings.iter().filter(|fitting| which(fitting)) {
            furnish(fitting, &self.trees, &self.copies)?;
        }
        Ok(())
    }
}

fn is_supplied(fitting: &Fitting) -> bool {
    source(fitting).is_some_and(|source| source.opener != Opener::Inside)
}

/// What of the host is written anew inside.
#[derive(Default)]
struct Copies {
    /// Contents of files, by the path inside at which they will stand.
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// This very program.
    guest: Option<fs::File>,
}

/// No file that is copied is longer.
const LONGEST_COPY: u64 = 256 * 1024;

/// Reads the files to copy with the rights of the sandbox's user: what that user may not read
/// is left out.
fn read_copies(plan: &Plan) -> Step<Copies> {
    let mut copies = Copies::default();
    for fitting in &plan.fittings {
        if let Fitting::Copy { source, target } = fitting
            && let Ok(file) = fs::File::open(source)
        {
            let mut content = Vec::new();
            file.take(LONGEST_COPY)
                .read_to_end(&mut content)
                .at(Stage::Mounts, format!("read `{}`", source.display()))?;
            copies.files.insert(target.clone(), content);
        }
        if let Fitting::Guest { .. } = fitting {
            let own = fs::File::open("/proc/self/exe");
            copies.guest = Some(own.at(Stage::Mounts, "open the guest program")?);
        }
    }
    Ok(copies)
}

fn new_proc() -> Step<OwnedFd> {
    let attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    sys::new_mount(c"proc", &[(c"hidepid", c"invisible")], attributes)
        .at(Stage::Mounts, "mount /proc")
}

/// Makes a fresh tmpfs the root and lets the host's tree go.
fn enter_tmpfs(bytes: u64) -> Step<()> {
    change_root(mount_new_root(bytes)?)
}

/// Mounts a fresh tmpfs, which is to become the root.
fn mount_new_root(bytes: u64) -> Step<&'static Path> {
    let folder = Path::new("/tmp");
    mount_tmpfs(folder, bytes, 4096, 0o755)?;
    Ok(folder)
}

/// Covers the host's programs with overlays, so that they are opened through these; which folders inside
/// will be separate from the host because of that.
fn overlay_programs(plan: &Plan, new_root: &Path) -> Step<Vec<PathBuf>> {
    const STEP: &str = "lay an overlay over the host's programs";
    if !is_for_commands(plan) {
        return Ok(Vec::new());
    }
    let shown: Vec<Source<'_>> = sources(plan)
        .filter(|source| source.access == Access::ReadOnlyOverlay)
        .filter(|source| source.opener == Opener::Inside)
        .collect();
    let folders: Vec<&Path> = shown.iter().map(|source| source.path).collect();
    let empty = new_root.join(".empty");
    fs::create_dir(&empty).at(Stage::Mounts, STEP)?;
    let overlaid = apart::overlay_parents(&folders, &empty).at(Stage::Mounts, STEP)?;
    // The overlays keep it, nameless.
    fs::remove_dir(&empty).at(Stage::Mounts, STEP)?;
    let apart = shown
        .iter()
        .filter(|source| overlaid.contains(&source.path));
    Ok(apart.map(|source| source.target.to_owned()).collect())
}

fn change_root(folder: &Path) -> Step<()> {
    let change = || {
        std::env::set_current_dir(folder)?;
        pivot_root(".", ".")?;
        // The old root now lies under the new one, at the same place.
        umount2(".", MntFlags::MNT_DETACH)?;
        std::env::set_current_dir("/")
    };
    change().at(Stage::Mounts, "change the root")
}

fn close_root() -> Step<()> {
    let flags = MsFlags::MS_BIND
        | MsFlags::MS_REMOUNT
        | MsFlags::MS_RDONLY
        | MsFlags::MS_NOSUID
        | MsFlags::MS_NODEV;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)
        .at(Stage::Mounts, "make the root read-only")
}

/// Whether commands see this root. A program that puts up more walls, and a machine's, show nothing of it
/// to any.
fn is_for_commands(plan: &Plan) -> bool {
    plan.program.is_none() && plan.behind != Behind::Machine
}

/// Separates what commands see from the host, but for the folders that are separate already.
fn set_apart(plan: &Plan, already: &[PathBuf]) -> Step<()> {
    if !is_for_commands(plan) {
        return Ok(());
    }
    let overlaid = plan.fittings.iter().filter_map(|fitting| match fitting {
        Fitting::Bind { target, access, .. } if *access == Access::ReadOnlyOverlay => {
            Some(target.as_path())
        }
        _ => None,
    });
    apart::set_apart(overlaid.filter(|target| !already.iter().any(|one| one == target)))
}

/// Makes the finished root a folder of another one, a program's.
fn surround(program: &Program, trees: &Trees) -> Step<()> {
    let inner = sys::open_tree(Path::new("/")).at(Stage::Mounts, "hold the root")?;
    enter_tmpfs(1024 * 1024)?;
    for fitting in &program.fittings {
        furnish(fitting, trees, &Copies::default())?;
    }
    make_folder(&program.inner, 0o755)?;
    sys::move_mount(&inner, &program.inner).at(Stage::Mounts, "attach the root")?;
    close_root()
}

fn enter_overlay(trees: &mut Trees, bytes: u64) -> Step<()> {
    let lower = Path::new(LOWER);
    for folder in [LOWER, "/rw", "/root"] {
        make_folder(Path::new(folder), 0o755)?;
    }
    let tree = trees
        .remove(lower)
        .ok_or(io::Error::from_raw_os_error(libc::ENOENT))
        .at(Stage::Mounts, "find the image")?;
    sys::move_mount(&tree, lower).at(Stage::Mounts, "attach the image")?;
    mount_tmpfs(Path::new("/rw"), bytes, bytes / 4096, 0o755)?;
    make_folder(Path::new("/rw/upper"), 0o755)?;
    make_folder(Path::new("/rw/work"), 0o755)?;
    mount(
        Some("overlay"),
        "/root",
        Some("overlay"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some("lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work,userxattr"),
    )
    .at(Stage::Mounts, "lay the overlay over the image")?;
    change_root(Path::new("/root"))
}

fn furnish(fitting: &Fitting, trees: &Trees, copies: &Copies) -> Step<()> {
    match fitting {
        Fitting::Folder { target, mode } => make_folder(target, *mode),
        Fitting::Link { target, points_to } => match symlink(points_to, target) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(error).at(Stage::Mounts, format!("link `{}`", target.display()))
            }
            _ => Ok(()),
        },
        Fitting::File { target, content } => replace_file(target, content.as_bytes())
            .at(Stage::Mounts, format!("write `{}`", target.display())),
        Fitting::Copy { target, .. } => match copies.files.get(target) {
            Some(content) => replace_file(target, content)
                .at(Stage::Mounts, format!("write `{}`", target.display())),
            None => Ok(()),
        },
        Fitting::Bind { target, .. } | Fitting::Kept { target, .. } | Fitting::Proc { target } => {
            attach(target, trees)
        }
        Fitting::Tmpfs {
            target,
            bytes,
            inodes,
            mode,
        } => {
            make_folder(target, 0o755)?;
            mount_tmpfs(target, *bytes, *inodes, *mode)
        }
        Fitting::Terminals { target } => {
            make_folder(target, 0o755)?;
            let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
            mount(
                Some("devpts"),
                target,
                Some("devpts"),
                flags,
                Some(TERMINALS),
            )
            .at(Stage::Mounts, "mount terminals")
        }
        Fitting::Guest { target } => {
            let own = copies.guest.as_ref();
            let own = own.ok_or(io::Error::from_raw_os_error(libc::ENOENT));
            let mut own = own.at(Stage::Mounts, "find the guest program")?;
            write_code(target, |file| io::copy(&mut own, file).map(drop))
        }
        Fitting::Code { target, content } => write_code(target, |file| file.write_all(content)),
    }
}

/// Writes a file of the plan's own, in an image instead of what the image had.
fn replace_file(target: &Path, content: &[u8]) -> io::Result<()> {
    write_file(target, 0o644, |file| file.write_all(content))
}

fn write_file(
    target: &Path,
    mode: u32,
    write: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> io::Result<()> {
    match fs::remove_file(target) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    write(&mut options.open(target)?)
}

fn write_code(target: &Path, write: impl FnOnce(&mut fs::File) -> io::Result<()>) -> Step<()> {
    make_folder(target.parent().unwrap_or(Path::new("/")), 0o755)?;
    write_file(target, 0o555, write).at(Stage::Mounts, format!("write `{}`", target.display()))
}

fn attach(target: &Path, trees: &Trees) -> Step<()> {
    let step = || format!("attach `{}`", target.display());
    let tree = trees
        .get(target)
        .ok_or(io::Error::from_raw_os_error(libc::ENOENT))
        .at(Stage::Mounts, step())?;
    let kind = fstat(tree).at(Stage::Mounts, step())?.st_mode & libc::S_IFMT;
    let is_folder = kind == libc::S_IFDIR;
    if is_folder {
        make_folder(target, 0o755)?;
    } else if fs::symlink_metadata(target).is_err() {
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o444)
            .open(target)
            .at(Stage::Mounts, step())?;
    }
    sys::move_mount(tree, target).at(Stage::Mounts, step())
}

fn make_folder(target: &Path, mode: u32) -> Step<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(target)
        .at(Stage::Mounts, format!("make `{}`", target.display()))
}

fn mount_tmpfs(target: &Path, bytes: u64, inodes: u64, mode: u32) -> Step<()> {
    let options = format!("size={bytes},nr_inodes={},mode={mode:o}", inodes.max(16));
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), target, Some("tmpfs"), flags, Some(&*options)).at(
        Stage::Mounts,
        format!("mount a tmpfs at `{}`", target.display()),
    )
}
