//! The files of control groups, which the kernel makes. Every function blocks.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// No file of a group that is read here is longer.
const LONGEST: u64 = 1 << 20;

/// The operations on control groups.
pub(in crate::driver) trait GroupFiles {
    /// Returns the content of a file.
    fn read(&self, file: &Path) -> io::Result<String>;
    /// Writes a value to a file that exists.
    fn write(&self, file: &Path, value: &str) -> io::Result<()>;
    /// Makes a group.
    fn create(&self, group: &Path) -> io::Result<()>;
    /// Removes a group that has neither processes nor groups.
    fn remove(&self, group: &Path) -> io::Result<()>;
    /// Returns the names of the groups in a group.
    fn groups(&self, group: &Path) -> io::Result<Vec<String>>;
}

/// The control groups of this machine.
#[derive(Clone, Copy, Debug)]
pub(in crate::driver) struct HostGroups;

impl GroupFiles for HostGroups {
    fn read(&self, file: &Path) -> io::Result<String> {
        let mut text = String::new();
        let opened = std::fs::File::open(file)?;
        opened.take(LONGEST).read_to_string(&mut text)?;
        Ok(text)
    }

    fn write(&self, file: &Path, value: &str) -> io::Result<()> {
        let mut opened = OpenOptions::new().write(true).open(file)?;
        // The kernel takes a value as a whole, or refuses it.
        opened.write_all(value.as_bytes())
    }

    fn create(&self, group: &Path) -> io::Result<()> {
        std::fs::create_dir(group)
    }

    fn remove(&self, group: &Path) -> io::Result<()> {
        std::fs::remove_dir(group)
    }

    fn groups(&self, group: &Path) -> io::Result<Vec<String>> {
        let mut names = vec![];
        for entry in std::fs::read_dir(group)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    }
}
