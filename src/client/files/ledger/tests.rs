use super::*;
use nomad_csi_model::{Namespace, NamespacedId, VolumeId};
use nomad_csi_plan::{Actor, LedgerKey, LedgerSet, Ownership};

fn name() -> SetName {
    SetName::parse("web").unwrap()
}

fn holder(user: &str) -> LockHolder {
    LockHolder {
        by: Actor {
            user: user.into(),
            host: "build-7".into(),
            process: 7,
            command: "apply".into(),
        },
        since: 5,
        process: None,
    }
}

fn owning(ids: &[&str]) -> LedgerSet {
    let mut set = LedgerSet::new(name(), LedgerKey::new([3; 32]));
    for id in ids {
        let key = NamespacedId::new(Namespace::default(), VolumeId::new(*id));
        set.own(key, Ownership::default());
    }
    set
}

fn ledger() -> (tempfile::TempDir, FileLedger) {
    let directory = tempfile::tempdir().unwrap();
    let ledger = FileLedger::new(directory.path(), Path::new("ledger.json"));
    (directory, ledger)
}

async fn save(
    ledger: &FileLedger,
    set: &LedgerSet,
    stored: &mut StoredSet,
) -> Result<(), LedgerError> {
    let changes = set.changes(stored, "a-save").unwrap();
    ledger.write(&name(), stored, changes).await
}

#[tokio::test]
async fn written_sets_are_read_back_and_listed() {
    let (_directory, ledger) = ledger();
    assert!(ledger.read(&name()).await.unwrap().is_empty());
    assert_eq!(ledger.sets().await.unwrap(), BTreeSet::new());
    let mut stored = StoredSet::default();
    save(&ledger, &owning(&["db0", "db1"]), &mut stored).await.unwrap();
    let read = ledger.read(&name()).await.unwrap();
    assert_eq!(read, stored);
    let set = LedgerSet::read(name(), &read, LedgerKey::new([9; 32])).unwrap();
    assert_eq!(set, owning(&["db0", "db1"]));
    assert_eq!(ledger.sets().await.unwrap(), BTreeSet::from([name()]));
}

#[tokio::test]
async fn only_one_of_two_concurrent_writers_succeeds() {
    let (_directory, ledger) = ledger();
    let (mut first, mut second) = (StoredSet::default(), StoredSet::default());
    save(&ledger, &owning(&["db0"]), &mut first).await.unwrap();
    let refused = save(&ledger, &owning(&["db1"]), &mut second).await.unwrap_err();
    assert_eq!(refused.failure, LedgerFailure::Conflict);
    assert_eq!(second, StoredSet::default());
    let read = ledger.read(&name()).await.unwrap();
    assert_eq!(read, first);
}

#[tokio::test]
async fn a_locked_set_names_its_holder_and_is_free_after_release() {
    let (_directory, ledger) = ledger();
    let lock = ledger.lock(&name(), &holder("ada")).await.unwrap();
    assert_eq!(lock.time_to_live(), None);
    let Err(refused) = ledger.lock(&name(), &holder("bo")).await else {
        panic!("two commands hold the lock");
    };
    assert_eq!(refused.failure, LedgerFailure::Locked(Some(Box::new(holder("ada")))));
    assert_eq!(refused.message, "ada on build-7 (process 7, apply) holds the lock of set `web`");
    let other = SetName::parse("other").unwrap();
    drop(ledger.lock(&other, &holder("bo")).await.unwrap());
    lock.release().await.unwrap();
    drop(ledger.lock(&name(), &holder("bo")).await.unwrap());
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let (directory, ledger) = ledger();
    save(&ledger, &owning(&["db0"]), &mut StoredSet::default()).await.unwrap();
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", entry.path().display());
    }
}

#[tokio::test]
async fn an_invalid_ledger_file_is_refused_and_unchanged() {
    let (_directory, ledger) = ledger();
    for text in ["", "{", r#"{"format":2,"sets":{}}"#, r#"{"format":1,"sets":{},"more":1}"#] {
        std::fs::write(&ledger.path, text).unwrap();
        let refused = save(&ledger, &owning(&["db0"]), &mut StoredSet::default()).await;
        assert_eq!(refused.unwrap_err().code, Code::LedgerUnusable, "{text}");
        assert_eq!(std::fs::read_to_string(&ledger.path).unwrap(), text);
    }
    let nowhere = FileLedger::new(Path::new("/"), Path::new("/nonexistent/ledger.json"));
    let refused = save(&nowhere, &owning(&["db0"]), &mut StoredSet::default()).await;
    assert_eq!(refused.unwrap_err().code, Code::LedgerFile);
}

#[cfg(unix)]
#[tokio::test]
async fn a_planted_link_is_neither_read_nor_written() {
    for file in ["ledger.json", "ledger.json.lock", "ledger.json.web.lock"] {
        let (directory, ledger) = ledger();
        let precious = directory.path().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, directory.path().join(file)).unwrap();
        let written = save(&ledger, &owning(&["db"]), &mut StoredSet::default()).await;
        let locked = ledger.lock(&name(), &holder("me")).await.map(drop);
        let refused: Vec<Code> = [written, locked]
            .into_iter()
            .filter_map(|result| result.err().map(|error| error.code))
            .collect();
        assert_eq!(refused, [Code::FileNotPrivate], "{file}");
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious", "{file}");
    }
}

/// A process that another thread starts has a copy of every open file until it runs its program.
#[tokio::test]
async fn a_released_lock_is_free_although_a_copy_of_its_file_is_open() {
    let (_directory, ledger) = ledger();
    let lock = ledger.lock_blocking(&name(), &holder("eva")).unwrap();
    let copy = lock.file.try_clone().unwrap();
    assert!(ledger.lock_blocking(&name(), &holder("max")).is_err());
    drop(lock);
    assert!(ledger.lock_blocking(&name(), &holder("max")).is_ok());
    drop(copy);
}

/// A checkout can have links: what is in the tree does not lead out of it.
#[cfg(unix)]
#[tokio::test]
async fn a_link_in_the_tree_leads_to_no_ledger_outside() {
    let base = tempfile::tempdir().unwrap();
    let [tree, outside] = ["tree", "outside"].map(|name| base.path().join(name));
    for directory in [&tree, &outside] {
        std::fs::create_dir(directory).unwrap();
    }
    std::os::unix::fs::symlink(&outside, tree.join("state")).unwrap();
    let linked = FileLedger::new(&tree, Path::new("state/ledger.json"));
    let refused = linked.lock(&name(), &holder("someone")).await.err().unwrap();
    assert!(refused.message.contains("outside of the working directory"), "{refused:?}");
    assert!(linked.read(&name()).await.is_err() && linked.sets().await.is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    let named = FileLedger::new(&tree, &outside.join("ledger.json"));
    named.lock(&name(), &holder("someone")).await.unwrap();
}
