//! The right of one other user to pass through a private directory, as an entry of its access control list.
//!
//! The user can open what the directory contains only if the permissions there allow it, and cannot list names.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::task_directory::TaskWritableDirectory;

const NAME: &str = "system.posix_acl_access";
/// The version of the kernel's format.
const VERSION: u32 = 2;
/// The ID of an entry that names no user and no group.
const NO_ID: u32 = u32::MAX;
const SEARCH: u16 = 1;
/// A list of this size has some 8,000 entries, the most that file systems keep.
const LARGEST: usize = 64 << 10;

/// The tags of entries, in the order that the kernel requires.
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OWNER: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// An entry of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    tag: u16,
    id: u32,
    rights: u16,
}

/// Lets a user pass through a directory. The other rights stay as they are.
///
/// # Errors
/// If the file system has no access control lists, or the directory belongs to another user.
pub fn grant_search(directory: &Path, uid: u32) -> io::Result<()> {
    // What is read and what is changed is one directory, and no link leads to it.
    let directory = TaskWritableDirectory::open(directory)?;
    let entries = match read(&directory)? {
        Some(entries) => entries,
        None => of_mode(rustix::fs::fstat(&directory)?.st_mode),
    };
    let granted = with_search(entries.clone(), uid);
    if granted == entries {
        return Ok(());
    }
    write(&directory, &granted)
}

/// Returns the users that were let through a directory.
///
/// # Errors
/// If the list cannot be read.
pub fn users_with_search(directory: &Path) -> io::Result<BTreeSet<u32>> {
    let directory = TaskWritableDirectory::open(directory)?;
    let entries = read(&directory)?.unwrap_or_default().into_iter();
    let users = entries.filter(|it| it.tag == USER && it.rights == SEARCH);
    Ok(users.map(|it| it.id).collect())
}

/// Takes the right from users that have no other one there. The rights of all others stay as they are.
///
/// # Errors
/// If the list cannot be read or written.
pub fn revoke_search(directory: &Path, users: &BTreeSet<u32>) -> io::Result<()> {
    let directory = TaskWritableDirectory::open(directory)?;
    let Some(entries) = read(&directory)? else {
        return Ok(());
    };
    let left = without_search(entries.clone(), users);
    if left == entries {
        return Ok(());
    }
    write(&directory, &left)
}

/// Returns the list of a directory; `None` if it has only permissions.
fn read(directory: &TaskWritableDirectory) -> io::Result<Option<Vec<Entry>>> {
    let mut text = vec![0; LARGEST];
    match rustix::fs::fgetxattr(directory, NAME, &mut text[..]) {
        Ok(length) => parse(&text[..length]).map(Some),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn write(directory: &TaskWritableDirectory, entries: &[Entry]) -> io::Result<()> {
    let (text, flags) = (to_text(entries), XattrFlags::empty());
    Ok(rustix::fs::fsetxattr(directory, NAME, &text, flags)?)
}

/// Removes the entries of the users. Without an entry for a user or a group, the list is the permissions again.
fn without_search(mut entries: Vec<Entry>, users: &BTreeSet<u32>) -> Vec<Entry> {
    let is_revoked = |it: &Entry| it.tag == USER && it.rights == SEARCH && users.contains(&it.id);
    entries.retain(|it| !is_revoked(it));
    let is_named = |it: &Entry| !matches!(it.tag, OWNER | GROUP_OWNER | MASK | OTHER);
    if !entries.iter().any(is_named) {
        entries.retain(|it| it.tag != MASK);
    }
    entries
}

/// Returns the list that says the same as the permissions.
fn of_mode(mode: u32) -> Vec<Entry> {
    let entry = |tag, shift: u32| Entry {
        tag,
        id: NO_ID,
        rights: u16::try_from(mode >> shift & 0o7).unwrap_or_default(),
    };
    vec![entry(OWNER, 6), entry(GROUP_OWNER, 3), entry(OTHER, 0)]
}

/// Adds the right of the user. The mask limits all entries but those of the owner and of others, so it allows what
/// the group had, and the search.
fn with_search(mut entries: Vec<Entry>, uid: u32) -> Vec<Entry> {
    let group = entries.iter().find(|it| it.tag == GROUP_OWNER);
    let group = group.map_or(0, |it| it.rights);
    for (tag, id, without) in [(USER, uid, 0), (MASK, NO_ID, group)] {
        match entries.iter_mut().find(|it| (it.tag, it.id) == (tag, id)) {
            Some(entry) => entry.rights |= SEARCH,
            None => entries.push(Entry { tag, id, rights: without | SEARCH }),
        }
    }
    entries.sort_unstable();
    entries
}

fn parse(text: &[u8]) -> io::Result<Vec<Entry>> {
    let damaged =
        || io::Error::new(io::ErrorKind::InvalidData, "its access control list is not readable");
    let (version, entries) = text.split_first_chunk().ok_or_else(damaged)?;
    let (entries, rest) = entries.as_chunks::<8>();
    if u32::from_le_bytes(*version) != VERSION || !rest.is_empty() {
        return Err(damaged());
    }
    let entry = |bytes: &[u8; 8]| {
        let [a, b, c, d, e, f, g, h] = *bytes;
        Entry {
            tag: u16::from_le_bytes([a, b]),
            rights: u16::from_le_bytes([c, d]),
            id: u32::from_le_bytes([e, f, g, h]),
        }
    };
    Ok(entries.iter().map(entry).collect())
}

fn to_text(entries: &[Entry]) -> Vec<u8> {
    let mut text = VERSION.to_le_bytes().to_vec();
    for entry in entries {
        text.extend(entry.tag.to_le_bytes());
        text.extend(entry.rights.to_le_bytes());
        text.extend(entry.id.to_le_bytes());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let entries = with_search(of_mode(0o700), 1000);
        let rights: Vec<_> = entries.iter().map(|it| (it.tag, it.id, it.rights)).collect();
        let expected = [
            (OWNER, NO_ID, 7),
            (USER, 1000, 1),
            (GROUP_OWNER, NO_ID, 0),
            (MASK, NO_ID, 1),
            (OTHER, NO_ID, 0),
        ];
        assert_eq!(rights, expected);
        let open = with_search(of_mode(0o750), 1000);
        let mask = open.iter().find(|it| it.tag == MASK).unwrap();
        assert_eq!(mask.rights, 5, "the group keeps its rights");
        assert_eq!(parse(&to_text(&entries)).unwrap(), entries);
        assert!(parse(&to_text(&entries)[..13]).is_err());
    }

    /// The directory stays private for all but the users that were named.
    #[test]
    fn a_directory_keeps_its_other_rights() {
        let directory = tempfile::tempdir().unwrap();
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(directory.path(), private).unwrap();
        for uid in [4242, 4243, 4242] {
            grant_search(directory.path(), uid).unwrap();
        }
        let mode = directory.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o710, "the group's part shows the mask");
        let mut text = vec![0; LARGEST];
        let length = rustix::fs::getxattr(directory.path(), NAME, &mut text[..]).unwrap();
        let users = parse(&text[..length]).unwrap().into_iter();
        let users: Vec<_> = users.filter(|it| it.tag == USER).map(|it| it.id).collect();
        assert_eq!(users, [4242, 4243]);
    }

    #[test]
    fn a_revoked_right_leaves_the_permissions_as_they_were() {
        let directory = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o750);
        std::fs::set_permissions(directory.path(), open).unwrap();
        let users = || users_with_search(directory.path()).unwrap();
        for uid in [4242, 4243] {
            grant_search(directory.path(), uid).unwrap();
        }
        assert_eq!(users(), [4242, 4243].into());
        revoke_search(directory.path(), &[4242, 4244].into()).unwrap();
        assert_eq!(users(), [4243].into());
        for _ in 0..2 {
            revoke_search(directory.path(), &[4243].into()).unwrap();
            let opened = TaskWritableDirectory::open(directory.path()).unwrap();
            assert_eq!(read(&opened).unwrap(), None);
        }
        let mode = directory.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
    }

    /// An entry that gives more is an operator's.
    #[test]
    fn only_the_right_to_search_is_revoked() {
        let more = Entry { tag: USER, id: 4242, rights: 5 };
        let mut entries = with_search(of_mode(0o700), 4243);
        entries.push(more);
        let left = without_search(entries, &[4242, 4243].into());
        assert!(left.contains(&more) && left.iter().any(|it| it.tag == MASK));
        assert!(left.iter().all(|it| it.id != 4243));
    }
}
