//! Builds the root file system that commands see. It starts empty, so it contains only those parts of the
//! host that the plan names.
//!
//! All host paths are opened first, as detached mounts, while the host's tree is still mounted. Then the
//! host's tree is unmounted for good. The new root is populated afterwards, when paths can only resolve
//! inside it. Entry points: [`open_supervisor_mounts`] outside, [`RootBuilder`] in process 1.

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

use crate::masking;
use crate::plan::{
    IdMap, MountAccess, Process1Role, RootEntry, RootFilesystem, RuntimeProgram, SetupStage,
    WallsPlan,
};
use crate::supervisor::{SetupContext, SetupResult};
use crate::sys;

/// Detached mounts, by the path in the sandbox at which they will be attached.
pub(crate) type DetachedMounts = BTreeMap<PathBuf, OwnedFd>;

/// Mount options of devpts. `max` limits the terminals of one sandbox, because all sandboxes share the
/// terminals that the machine has.
pub(crate) const DEVPTS_OPTIONS: &str = "newinstance,ptmxmode=0666,mode=0620,max=64";

/// Where the image's folder is mounted before the overlay is mounted on top of it.
const LOWER_DIR: &str = "/lower";

/// Opens the sources that need the supervisor's privileges on the host. Called by the supervisor.
/// `userns_for` makes a user namespace with the given mapping.
pub(crate) fn open_supervisor_mounts(
    plan: &WallsPlan,
    mut userns_for: impl FnMut(IdMap) -> SetupResult<OwnedFd>,
) -> SetupResult<DetachedMounts> {
    let mut trees = DetachedMounts::new();
    for source in mount_sources(plan) {
        let tree = match source.opener {
            MountOpener::Process1 => continue,
            MountOpener::Supervisor => open_mount(source.path, source.access)?,
            MountOpener::Mapped(idmap) => {
                let userns = userns_for(idmap)?;
                let path = source.path.display();
                let tree = open_source(source.path, source.access)
                    .at(SetupStage::Mounts, format!("open `{path}`"))?;
                sys::mount_setattr(&tree, mount_attributes(source.access), Some(&userns))
                    .at(SetupStage::Mounts, format!("map the owner of `{path}`"))?;
                tree
            }
        };
        trees.insert(source.target.to_owned(), tree);
    }
    Ok(trees)
}

/// A host path that will be mounted in the root.
struct MountSource<'a> {
    path: &'a Path,
    target: &'a Path,
    access: MountAccess,
    opener: MountOpener,
}

/// Which process opens a path, and so with which privileges.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MountOpener {
    /// Process 1, with the privileges of the sandbox's user.
    Process1,
    Supervisor,
    /// The supervisor, which also maps the owner of the files.
    Mapped(IdMap),
}

impl From<Option<IdMap>> for MountOpener {
    fn from(idmap: Option<IdMap>) -> Self {
        idmap.map_or(Self::Process1, Self::Mapped)
    }
}

fn mount_sources(plan: &WallsPlan) -> impl Iterator<Item = MountSource<'_>> {
    let image = match &plan.root {
        RootFilesystem::Image { folder, idmap, .. } => Some(MountSource {
            path: folder,
            target: Path::new(LOWER_DIR),
            access: MountAccess::ReadOnly,
            opener: (*idmap).into(),
        }),
        RootFilesystem::Empty => None,
    };
    image
        .into_iter()
        .chain(plan.root_entries.iter().filter_map(mount_source))
}

fn mount_source(fitting: &RootEntry) -> Option<MountSource<'_>> {
    match fitting {
        RootEntry::Bind {
            source,
            target,
            access,
            idmap,
        } => Some(MountSource {
            path: source,
            target,
            access: *access,
            opener: (*idmap).into(),
        }),
        RootEntry::SupervisorBind { source, target } => Some(MountSource {
            path: source,
            target,
            access: MountAccess::ReadOnly,
            opener: MountOpener::Supervisor,
        }),
        _ => None,
    }
}

/// Paths that commands can write to are opened without following symbolic links: another sandbox may have
/// put a link there after the path was checked, and the link would lead elsewhere.
pub(crate) fn open_source(path: &Path, access: MountAccess) -> io::Result<OwnedFd> {
    match access {
        MountAccess::ReadWrite => sys::open_tree_no_symlinks(path),
        MountAccess::ReadOnly | MountAccess::ReadOnlyOverlay | MountAccess::Device => {
            sys::open_tree(path)
        }
    }
}

fn open_mount(source: &Path, access: MountAccess) -> SetupResult<OwnedFd> {
    open_source(source, access)
        .and_then(|tree| sys::mount_setattr(&tree, mount_attributes(access), None).map(|()| tree))
        .at(SetupStage::Mounts, format!("open `{}`", source.display()))
}

fn open_all(sources: &[MountSource<'_>], trees: &mut DetachedMounts) -> SetupResult<()> {
    for source in sources {
        let tree = open_mount(source.path, source.access)?;
        trees.insert(source.target.to_owned(), tree);
    }
    Ok(())
}

/// Must run while the host's own `/proc` is mounted: the kernel requires that.
fn add_proc_mounts(trees: &mut DetachedMounts, fittings: &[RootEntry]) -> SetupResult<()> {
    for fitting in fittings {
        if let RootEntry::Proc { target } = fitting {
            trees.insert(target.clone(), open_proc_mount()?);
        }
    }
    Ok(())
}

pub(crate) fn mount_attributes(access: MountAccess) -> u64 {
    match access {
        MountAccess::ReadOnly | MountAccess::ReadOnlyOverlay => {
            MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV
        }
        MountAccess::ReadWrite => MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        MountAccess::Device => MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
    }
}

/// Mount targets, in the sandbox, of the sources that [`open_supervisor_mounts`] opens, in the same order.
pub(crate) fn supervisor_mount_targets(plan: &WallsPlan) -> impl Iterator<Item = &Path> {
    let supplied = mount_sources(plan).filter(|source| source.opener != MountOpener::Process1);
    supplied.map(|source| source.target)
}

/// A root that is complete except for the mounts that the supervisor supplies.
pub(crate) struct RootBuilder {
    trees: DetachedMounts,
    /// Folders that were opened through an overlay, by their path in the sandbox.
    apart: Vec<PathBuf>,
    copies: CopiedFiles,
    /// Mounts of the runtime program's root, which surrounds this one, if there is one.
    program_trees: DetachedMounts,
}

impl RootBuilder {
    /// Opens the sources of the root, unmounts the host's tree, and creates the entries that do not need the
    /// supervisor. Must run in the new mount namespace.
    pub(crate) fn build(plan: &WallsPlan) -> SetupResult<Self> {
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
            .at(SetupStage::Mounts, "make mounts private")?;
        let mut trees = DetachedMounts::new();
        let (overlaid, direct): (Vec<_>, Vec<_>) = mount_sources(plan)
            .filter(|source| source.opener == MountOpener::Process1)
            .partition(|source| source.access == MountAccess::ReadOnlyOverlay);
        open_all(&direct, &mut trees)?;
        add_proc_mounts(&mut trees, &plan.root_entries)?;
        let mut outer = DetachedMounts::new();
        if let Some(program) = &plan.program {
            let sources: Vec<_> = program
                .root_entries
                .iter()
                .filter_map(mount_source)
                .collect();
            open_all(&sources, &mut outer)?;
            add_proc_mounts(&mut outer, &program.root_entries)?;
        }
        let copies = read_copies(plan)?;
        // The new root hides a folder of the host in which the workspace may be, so all else comes first.
        let new_root = mount_new_root(16 * 1024 * 1024)?;
        let apart = overlay_programs(plan, &overlaid, new_root)?;
        open_all(&overlaid, &mut trees)?;
        change_root(new_root)?;
        let unfinished = Self {
            trees,
            apart,
            copies,
            program_trees: outer,
        };
        if plan.root == RootFilesystem::Empty {
            unfinished.populate(plan, |fitting| !is_opened_by_supervisor(fitting))?;
        }
        Ok(unfinished)
    }

    /// Adds the mounts that the supervisor supplied and completes the root.
    pub(crate) fn finish(mut self, plan: &WallsPlan, supplied: DetachedMounts) -> SetupResult<()> {
        self.trees.extend(supplied);
        match &plan.root {
            RootFilesystem::Image { overlay_bytes, .. } => {
                enter_overlay(&mut self.trees, *overlay_bytes)?;
                self.populate(plan, |_| true)?;
                mask_host_paths(plan, &self.apart)?;
            }
            RootFilesystem::Empty => {
                self.populate(plan, is_opened_by_supervisor)?;
                mask_host_paths(plan, &self.apart)?;
                make_root_read_only()?;
            }
        }
        match &plan.program {
            Some(program) => enter_program_root(program, &self.program_trees),
            None => Ok(()),
        }
    }

    fn populate(&self, plan: &WallsPlan, which: impl Fn(&RootEntry) -> bool) -> SetupResult<()> {
        for fitting in plan.root_entries.iter().filter(|fitting| which(fitting)) {
            create_entry(fitting, &self.trees, &self.copies)?;
        }
        Ok(())
    }
}

fn is_opened_by_supervisor(fitting: &RootEntry) -> bool {
    mount_source(fitting).is_some_and(|source| source.opener != MountOpener::Process1)
}

/// Host files that are copied into the root instead of mounted.
#[derive(Default)]
struct CopiedFiles {
    /// Contents of files, by their path in the sandbox.
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// The guest program, which is the program that is running now.
    guest: Option<fs::File>,
}

/// Copied files are truncated to this size.
const MAX_COPY_BYTES: u64 = 256 * 1024;

/// Reads the files to copy with the privileges of the sandbox's user. Files that this user cannot open are
/// left out.
fn read_copies(plan: &WallsPlan) -> SetupResult<CopiedFiles> {
    let mut copies = CopiedFiles::default();
    for fitting in &plan.root_entries {
        if let RootEntry::Copy { source, target } = fitting
            && let Ok(file) = fs::File::open(source)
        {
            let mut content = Vec::new();
            file.take(MAX_COPY_BYTES)
                .read_to_end(&mut content)
                .at(SetupStage::Mounts, format!("read `{}`", source.display()))?;
            copies.files.insert(target.clone(), content);
        }
        if let RootEntry::GuestProgram { .. } = fitting {
            let own = fs::File::open("/proc/self/exe");
            copies.guest = Some(own.at(SetupStage::Mounts, "open the guest program")?);
        }
    }
    Ok(copies)
}

fn open_proc_mount() -> SetupResult<OwnedFd> {
    let attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    sys::new_mount(c"proc", &[(c"hidepid", c"invisible")], attributes)
        .at(SetupStage::Mounts, "mount /proc")
}

/// Makes a new tmpfs the root and unmounts the previous tree.
fn enter_tmpfs(bytes: u64) -> SetupResult<()> {
    change_root(mount_new_root(bytes)?)
}

/// Mounts a new tmpfs that is to become the root.
fn mount_new_root(bytes: u64) -> SetupResult<&'static Path> {
    let folder = Path::new("/tmp");
    mount_tmpfs(folder, bytes, 4096, 0o755)?;
    Ok(folder)
}

/// Mounts overlays over the host's programs, so that the programs are opened through the overlays. Returns
/// the paths in the sandbox of the folders that this separates from the host.
fn overlay_programs(
    plan: &WallsPlan,
    shown: &[MountSource<'_>],
    new_root: &Path,
) -> SetupResult<Vec<PathBuf>> {
    const STEP: &str = "lay an overlay over the host's programs";
    if !is_for_commands(plan) {
        return Ok(Vec::new());
    }
    let folders: Vec<&Path> = shown.iter().map(|source| source.path).collect();
    let empty = new_root.join(".empty");
    fs::create_dir(&empty).at(SetupStage::Mounts, STEP)?;
    let overlaid = masking::overlay_parents(&folders, &empty).at(SetupStage::Mounts, STEP)?;
    // The overlays keep the removed folder alive.
    fs::remove_dir(&empty).at(SetupStage::Mounts, STEP)?;
    let apart = shown
        .iter()
        .filter(|source| overlaid.contains(&source.path));
    Ok(apart.map(|source| source.target.to_owned()).collect())
}

fn change_root(folder: &Path) -> SetupResult<()> {
    let change = || {
        std::env::set_current_dir(folder)?;
        pivot_root(".", ".")?;
        // The old root is now mounted below the new one, at the same mount point.
        umount2(".", MntFlags::MNT_DETACH)?;
        std::env::set_current_dir("/")
    };
    change().at(SetupStage::Mounts, "change the root")
}

fn make_root_read_only() -> SetupResult<()> {
    let flags = MsFlags::MS_BIND
        | MsFlags::MS_REMOUNT
        | MsFlags::MS_RDONLY
        | MsFlags::MS_NOSUID
        | MsFlags::MS_NODEV;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)
        .at(SetupStage::Mounts, "make the root read-only")
}

/// Whether commands see this root. They do not if a runtime program sets up more walls or if a VMM runs here.
fn is_for_commands(plan: &WallsPlan) -> bool {
    plan.program.is_none() && plan.role != Process1Role::VmmHelper
}

/// Separates what commands see from the host, except the folders that are separate already.
fn mask_host_paths(plan: &WallsPlan, already: &[PathBuf]) -> SetupResult<()> {
    if !is_for_commands(plan) {
        return Ok(());
    }
    let overlaid = plan
        .root_entries
        .iter()
        .filter_map(|fitting| match fitting {
            RootEntry::Bind { target, access, .. } if *access == MountAccess::ReadOnlyOverlay => {
                Some(target.as_path())
            }
            _ => None,
        });
    masking::overlay_and_mask(overlaid.filter(|target| !already.iter().any(|one| one == target)))
}

/// Makes the finished root a folder in the root of a runtime program.
fn enter_program_root(program: &RuntimeProgram, trees: &DetachedMounts) -> SetupResult<()> {
    let inner = sys::open_tree(Path::new("/")).at(SetupStage::Mounts, "hold the root")?;
    enter_tmpfs(1024 * 1024)?;
    for fitting in &program.root_entries {
        create_entry(fitting, trees, &CopiedFiles::default())?;
    }
    make_folder(&program.sandbox_root, 0o755)?;
    sys::move_mount(&inner, &program.sandbox_root).at(SetupStage::Mounts, "attach the root")?;
    make_root_read_only()
}

fn enter_overlay(trees: &mut DetachedMounts, bytes: u64) -> SetupResult<()> {
    let lower = Path::new(LOWER_DIR);
    for folder in [LOWER_DIR, "/rw", "/root"] {
        make_folder(Path::new(folder), 0o755)?;
    }
    let tree = trees
        .remove(lower)
        .ok_or(io::Error::from_raw_os_error(libc::ENOENT))
        .at(SetupStage::Mounts, "find the image")?;
    sys::move_mount(&tree, lower).at(SetupStage::Mounts, "attach the image")?;
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
    .at(SetupStage::Mounts, "lay the overlay over the image")?;
    change_root(Path::new("/root"))
}

fn create_entry(
    fitting: &RootEntry,
    trees: &DetachedMounts,
    copies: &CopiedFiles,
) -> SetupResult<()> {
    match fitting {
        RootEntry::Folder { target, mode } => make_folder(target, *mode),
        RootEntry::Link { target, points_to } => match symlink(points_to, target) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(error).at(SetupStage::Mounts, format!("link `{}`", target.display()))
            }
            _ => Ok(()),
        },
        RootEntry::File { target, content } => replace_file(target, content.as_bytes())
            .at(SetupStage::Mounts, format!("write `{}`", target.display())),
        RootEntry::Copy { target, .. } => match copies.files.get(target) {
            Some(content) => replace_file(target, content)
                .at(SetupStage::Mounts, format!("write `{}`", target.display())),
            None => Ok(()),
        },
        RootEntry::Bind { target, .. }
        | RootEntry::SupervisorBind { target, .. }
        | RootEntry::Proc { target } => attach(target, trees),
        RootEntry::Tmpfs {
            target,
            bytes,
            inodes,
            mode,
        } => {
            make_folder(target, 0o755)?;
            mount_tmpfs(target, *bytes, *inodes, *mode)
        }
        RootEntry::Terminals { target } => {
            make_folder(target, 0o755)?;
            let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
            mount(
                Some("devpts"),
                target,
                Some("devpts"),
                flags,
                Some(DEVPTS_OPTIONS),
            )
            .at(SetupStage::Mounts, "mount terminals")
        }
        RootEntry::GuestProgram { target } => {
            let own = copies.guest.as_ref();
            let own = own.ok_or(io::Error::from_raw_os_error(libc::ENOENT));
            let mut own = own.at(SetupStage::Mounts, "find the guest program")?;
            write_executable(target, |file| io::copy(&mut own, file).map(drop))
        }
        RootEntry::Executable { target, content } => {
            write_executable(target, |file| file.write_all(content))
        }
    }
}

/// Writes a file from the plan. It replaces the image's file of that name.
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

fn write_executable(
    target: &Path,
    write: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> SetupResult<()> {
    make_folder(target.parent().unwrap_or(Path::new("/")), 0o755)?;
    write_file(target, 0o555, write).at(SetupStage::Mounts, format!("write `{}`", target.display()))
}

fn attach(target: &Path, trees: &DetachedMounts) -> SetupResult<()> {
    let step = || format!("attach `{}`", target.display());
    let tree = trees
        .get(target)
        .ok_or(io::Error::from_raw_os_error(libc::ENOENT))
        .at(SetupStage::Mounts, step())?;
    let kind = fstat(tree).at(SetupStage::Mounts, step())?.st_mode & libc::S_IFMT;
    let is_folder = kind == libc::S_IFDIR;
    if is_folder {
        make_folder(target, 0o755)?;
    } else if fs::symlink_metadata(target).is_err() {
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o444)
            .open(target)
            .at(SetupStage::Mounts, step())?;
    }
    sys::move_mount(tree, target).at(SetupStage::Mounts, step())
}

fn make_folder(target: &Path, mode: u32) -> SetupResult<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(target)
        .at(SetupStage::Mounts, format!("make `{}`", target.display()))
}

fn mount_tmpfs(target: &Path, bytes: u64, inodes: u64, mode: u32) -> SetupResult<()> {
    let options = format!("size={bytes},nr_inodes={},mode={mode:o}", inodes.max(16));
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), target, Some("tmpfs"), flags, Some(&*options)).at(
        SetupStage::Mounts,
        format!("mount a tmpfs at `{}`", target.display()),
    )
}
