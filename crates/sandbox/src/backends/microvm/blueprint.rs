//! The components of one kind of machine, and the QEMU command lines that boot and restore it.
//! Pure. Entry type: [`Blueprint`].

use std::path::{Path, PathBuf};

use walls::machine::FIRST_DESCRIPTOR;

use super::acceleration::Acceleration;
use crate::backends::machine::initramfs::Initramfs;
use crate::backends::machine::kernel::VmKernel;
use crate::backends::machine::size::MachineSize;
use crate::backends::machine::{key, stamp};

/// Must be increased when machines are built differently, so that old snapshots are not used.
const FORMAT_VERSION: u32 = 1;

/// Paths inside QEMU's root.
pub(super) const KERNEL_PATH: &str = "/machine/kernel";
pub(super) const INITRAMFS_PATH: &str = "/machine/initramfs";
pub(super) const DISK_PATH: &str = "/machine/disk";

/// Size of the translation cache in MiB. When it is full, QEMU discards and retranslates code.
const TRANSLATION_CACHE_MIB: u32 = 64;

/// The descriptors that QEMU is started with, in this order.
pub(super) const LINK_FD: i32 = FIRST_DESCRIPTOR;
pub(super) const CONTROL_FD: i32 = FIRST_DESCRIPTOR + 1;
pub(super) const FILES_FD: i32 = FIRST_DESCRIPTOR + 2;
pub(super) const MONITOR_FD: i32 = FIRST_DESCRIPTOR + 3;
pub(super) const MEMORY_FD: i32 = FIRST_DESCRIPTOR + 4;
pub(super) const STATE_FD: i32 = FIRST_DESCRIPTOR + 5;

/// Everything that a snapshot depends on.
#[derive(Debug, Clone)]
pub(super) struct Blueprint {
    pub(super) qemu: PathBuf,
    pub(super) kernel: VmKernel,
    pub(super) initramfs: Initramfs,
    pub(super) disk: PathBuf,
    pub(super) size: MachineSize,
    pub(super) acceleration: Acceleration,
}

/// How a machine starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MachineStart {
    /// `counter` is the frequency of the time stamp counter in kHz, if known.
    Boot { counter: Option<u64> },
    /// From a snapshot, whose state is a descriptor of its own.
    Restore,
}

impl Blueprint {
    /// Identifies compatible snapshots.
    pub(super) fn key(&self) -> String {
        key(&[
            FORMAT_VERSION.to_string(),
            stamp(&self.qemu),
            stamp(&self.kernel.image),
            self.initramfs.key.clone(),
            stamp(&self.disk),
            self.arguments(MachineStart::Boot { counter: None })
                .join(" "),
            cpu_model(),
        ])
    }

    pub(super) fn arguments(&self, beginning: MachineStart) -> Vec<String> {
        let mut all = Vec::new();
        let mut add = |words: &[&str]| all.extend(words.iter().map(|word| (*word).to_owned()));
        add(&["-nodefaults", "-no-user-config", "-no-reboot"]);
        add(&["-display", "none", "-name", "hotcell"]);
        let (accelerator, model) = match self.acceleration {
            Acceleration::Kvm => ("kvm".to_owned(), "host"),
            // Five-level page tables cost an extra step without benefit, and emulated "fast" string
            // instructions work byte by byte.
            Acceleration::Emulated { .. } => (
                format!("tcg,thread=multi,tb-size={TRANSLATION_CACHE_MIB}"),
                "max,la57=off,erms=off,fsrm=off",
            ),
        };
        let machine = "microvm,acpi=on,pcie=off,rtc=off,auto-kernel-cmdline=off,\
                       memory-backend=memory,dump-guest-core=off";
        add(&["-M", machine]);
        add(&["-accel", &accelerator, "-cpu", model]);
        add(&["-smp", &self.size.processors.to_string()]);
        add(&["-m", &format!("{}M", self.size.memory >> 20)]);
        // A booting machine writes into the snapshot's memory; a restored one writes to private
        // copies.
        let share = match beginning {
            MachineStart::Boot { .. } => "on",
            MachineStart::Restore => "off",
        };
        add(&[
            "-object",
            &format!(
                "memory-backend-file,id=memory,size={},mem-path=/proc/self/fd/{MEMORY_FD},share={share}",
                self.size.memory
            ),
        ]);
        // The last message of a failing kernel becomes part of QEMU's error output.
        add(&[
            "-chardev",
            "file,id=console,path=/proc/self/fd/2",
            "-serial",
            "chardev:console",
        ]);
        add(&["-device", "virtio-serial-device,max_ports=4"]);
        for (number, (name, descriptor)) in [
            ("link", LINK_FD),
            ("control", CONTROL_FD),
            ("files", FILES_FD),
        ]
        .into_iter()
        .enumerate()
        {
            add(&["-chardev", &format!("socket,id={name},fd={descriptor}")]);
            let port = format!(
                "virtserialport,chardev={name},name={name},nr={}",
                number + 1
            );
            add(&["-device", &port]);
        }
        let disk = format!(
            "driver=raw,node-name=disk,read-only=on,file.driver=file,file.filename={DISK_PATH},\
             file.locking=off"
        );
        add(&[
            "-blockdev",
            &disk,
            "-device",
            "virtio-blk-device,drive=disk",
        ]);
        add(&["-device", "virtio-rng-device"]);
        add(&["-chardev", &format!("socket,id=monitor,fd={MONITOR_FD}")]);
        add(&["-mon", "chardev=monitor,mode=control"]);
        match beginning {
            MachineStart::Boot { counter } => add(&[
                "-kernel",
                KERNEL_PATH,
                "-initrd",
                INITRAMFS_PATH,
                "-append",
                &self.kernel_arguments(counter),
            ]),
            MachineStart::Restore => add(&["-incoming", "defer"]),
        }
        all
    }

    fn kernel_arguments(&self, counter: Option<u64>) -> String {
        let told = counter.map(|kilohertz| format!("tsc_early_khz={kilohertz} tsc=reliable"));
        let mut arguments = vec![
            // A reboot must end the machine.
            "panic=-1",
            "reboot=t",
            "console=ttyS0",
            "loglevel=2",
            // Large pages would increase the private memory of every machine.
            "transparent_hugepage=never",
            "lsm=landlock,yama",
            "audit=0",
            "nowatchdog",
            // Expedited grace periods are cheaper than waiting for all processors.
            "rcupdate.rcu_expedited=1",
            "cryptomgr.notests",
            "random.trust_cpu=on",
        ];
        if let Acceleration::Emulated { .. } = self.acceleration {
            // Emulated code does not speculate.
            arguments.extend(["mitigations=off", "no_timer_check"]);
            // Code is translated again for every address it is loaded at. Predictable addresses
            // only help a program against its own sandbox.
            arguments.extend(["norandmaps", "randomize_kstack_offset=off"]);
            // Pages are cleared in software, and this kernel serves only one sandbox.
            arguments.push("init_on_alloc=0");
            arguments.extend(told.as_deref());
        }
        arguments.extend(["--", "init"]);
        arguments.join(" ")
    }
}

/// The processor model: a snapshot may use features that another one lacks.
fn cpu_model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .filter(|line| line.starts_with("model name") || line.starts_with("microcode"))
        .take(2)
        .collect()
}

/// The full path of QEMU, which is needed for its own root.
pub(super) fn find(program: &Path) -> Option<PathBuf> {
    match program.to_str() {
        Some(name) if !name.contains('/') => images::HostPrograms::default().find(name),
        _ => program.is_file().then(|| program.to_owned()),
    }
}
