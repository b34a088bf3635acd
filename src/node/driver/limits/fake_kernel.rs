//! Control groups in a directory, with files that behave like the kernel's as far as limits need it: a new group has its
//! files at once, controllers come from the group above, a group with processes is busy, and every call can be refused.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::controller::Controller;
use super::group_files::GroupFiles;

/// A refusal of calls for a name.
struct Refusal {
    name: String,
    error: Errno,
    times: u32,
    /// True if the group of the file is removed as well.
    removes: bool,
}

pub(super) struct FakeKernel {
    directory: tempfile::TempDir,
    refusals: RefCell<Vec<Refusal>>,
    writes: RefCell<Vec<String>>,
}

impl FakeKernel {
    /// A machine with these controllers in version 2, mounted where systemd mounts them.
    pub(super) fn new(controllers: &str) -> Self {
        let kernel = Self {
            directory: tempfile::tempdir().unwrap(),
            refusals: RefCell::default(),
            writes: RefCell::default(),
        };
        kernel.make_files(&kernel.mount(), controllers);
        kernel
    }

    pub(super) fn mount(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// Enables controllers for the groups below a group, as root of the machine would.
    pub(super) fn enable(&self, group: &Path, words: &str) {
        for word in words.split(' ') {
            self.control(group, word).unwrap();
        }
    }

    /// Refuses calls for what has this name, as often as that.
    pub(super) fn refuse(&self, name: &str, error: Errno, times: u32) {
        self.add(name, error, times, false);
    }

    /// Removes the group of the file with this name before it is written.
    pub(super) fn remove_before(&self, name: &str, error: Errno, times: u32) {
        self.add(name, error, times, true);
    }

    fn add(&self, name: &str, error: Errno, times: u32, removes: bool) {
        self.refusals.borrow_mut().push(Refusal { name: name.to_owned(), error, times, removes });
    }

    /// The names of the files that were written, in order.
    pub(super) fn writes(&self) -> Vec<String> {
        self.writes.borrow().clone()
    }

    /// Lets every process of a group end.
    pub(super) fn leave(&self, group: &Path) {
        fs::write(group.join("cgroup.procs"), "").unwrap();
        fs::write(group.join("cgroup.events"), "populated 0\nfrozen 0\n").unwrap();
    }

    fn make_files(&self, group: &Path, controllers: &str) {
        let is_outermost = *group == *self.mount();
        let write = |name: &str, value: &str| fs::write(group.join(name), value).unwrap();
        write("cgroup.controllers", controllers);
        write("cgroup.subtree_control", "");
        write("cgroup.procs", "");
        if !is_outermost {
            write("cgroup.events", "populated 0\nfrozen 0\n");
            write("cgroup.kill", "");
            write("cgroup.type", "domain\n");
            for controller in Controller::in_list(controllers) {
                let files: &[(&str, &str)] = match controller {
                    Controller::Cpu => &[("cpu.weight", "100"), ("cpu.max", "max 100000")],
                    Controller::Memory => &[
                        ("memory.max", "max"),
                        ("memory.swap.max", "max"),
                        ("memory.events", "oom 0\noom_kill 0\n"),
                    ],
                    Controller::Pids => &[("pids.max", "max"), ("pids.events", "max 0\n")],
                };
                for (name, value) in files {
                    write(name, value);
                }
            }
        }
    }

    fn check(&self, path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or_default();
        let mut refusals = self.refusals.borrow_mut();
        let mut matching = refusals.iter_mut();
        let refusal = matching.find(|it| *it.name == *name && it.times > 0);
        let Some(refusal) = refusal else {
            return Ok(());
        };
        refusal.times -= 1;
        if refusal.removes {
            remove_with_files(path.parent().unwrap()).ok();
        }
        Err(refusal.error.into())
    }

    fn control(&self, group: &Path, word: &str) -> io::Result<()> {
        let name = word.strip_prefix('+').ok_or(Errno::INVAL)?;
        let read = |file: &str| fs::read_to_string(group.join(file));
        let words = |text: &str| {
            let words = text.split_ascii_whitespace().map(ToOwned::to_owned);
            words.collect::<BTreeSet<_>>()
        };
        if !words(&read("cgroup.controllers")?).contains(name) {
            return Err(Errno::NOENT.into());
        }
        let is_outermost = *group == *self.mount();
        if !is_outermost && !read("cgroup.procs")?.is_empty() {
            return Err(Errno::BUSY.into());
        }
        let mut enabled = words(&read("cgroup.subtree_control")?);
        enabled.insert(name.to_owned());
        let text = enabled.into_iter().collect::<Vec<_>>().join(" ");
        fs::write(group.join("cgroup.subtree_control"), text)
    }
}

fn remove_with_files(group: &Path) -> io::Result<()> {
    for entry in fs::read_dir(group)? {
        fs::remove_file(entry?.path())?;
    }
    fs::remove_dir(group)
}

impl GroupFiles for FakeKernel {
    fn read(&self, file: &Path) -> io::Result<String> {
        fs::read_to_string(file)
    }

    fn write(&self, file: &Path, value: &str) -> io::Result<()> {
        self.check(file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let group = file.parent().unwrap_or(file);
        fs::metadata(file)?;
        self.writes.borrow_mut().push(name.clone().into_owned());
        match &*name {
            "cgroup.subtree_control" => self.control(group, value),
            "cgroup.procs" => {
                fs::write(group.join("cgroup.events"), "populated 1\nfrozen 0\n")?;
                fs::write(file, format!("{value}\n"))
            }
            "cgroup.kill" => {
                self.leave(group);
                Ok(())
            }
            _ => fs::write(file, value),
        }
    }

    fn create(&self, group: &Path) -> io::Result<()> {
        self.check(group)?;
        fs::create_dir(group)?;
        let above = group.parent().unwrap_or(group);
        let controllers = fs::read_to_string(above.join("cgroup.subtree_control"))?;
        self.make_files(group, &controllers);
        Ok(())
    }

    fn remove(&self, group: &Path) -> io::Result<()> {
        let procs = fs::read_to_string(group.join("cgroup.procs"))?;
        // The name of a group that cannot be made is refused as well, and nothing is there then.
        self.check(group)?;
        if !procs.is_empty() || !self.groups(group)?.is_empty() {
            return Err(Errno::BUSY.into());
        }
        remove_with_files(group)
    }

    fn groups(&self, group: &Path) -> io::Result<Vec<String>> {
        let mut names = vec![];
        for entry in fs::read_dir(group)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.extend(entry.file_name().into_string());
            }
        }
        names.sort();
        Ok(names)
    }
}
