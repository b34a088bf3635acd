//! The files of an allocation that a task has prepared against its reader.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

const ALLOC: &str = "a1";

/// An allocation with task `web`.
fn node() -> (tempfile::TempDir, NodeAllocAccess) {
    let data = tempfile::tempdir().unwrap();
    let alloc = AllocDirectory::new(data.path(), &ALLOC.into());
    let task = alloc.task("web");
    task.create(1, None).unwrap();
    fs::write(data.path().join("key"), "key of the agent").unwrap();
    fs::write(alloc.shared().join("data/shared.txt"), "0123456789").unwrap();
    fs::create_dir(task.local().join("below")).unwrap();
    fs::write(task.local().join("below/config"), "port = 1").unwrap();
    fs::write(task.secrets().join("token"), "secret").unwrap();
    fs::write(task.run(1).join("spec.json"), "PASSWORD").unwrap();
    symlink("../../../../key", task.local().join("link")).unwrap();
    symlink("../secrets", task.local().join("aside")).unwrap();
    symlink("below", task.local().join("inner")).unwrap();
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        task.local().join("pipe"),
        FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    );
    made.unwrap();
    let node = NodeAllocAccess::new(data.path().to_owned(), [].into(), TaskRestarts::default());
    (data, node)
}

async fn names(node: &NodeAllocAccess, path: &str) -> Vec<String> {
    let files = node.list(&ALLOC.into(), path).await.unwrap();
    files.into_iter().map(|file| file.name).collect()
}

#[tokio::test]
async fn what_tasks_write_is_listed_and_read() {
    let (_data, node) = node();
    let alloc = ALLOC.into();
    assert_eq!(names(&node, "/").await, ["alloc", "web"]);
    assert_eq!(names(&node, "web/").await, ["local"]);
    assert_eq!(names(&node, "/alloc").await, ["data", "logs", "tmp"]);
    assert_eq!(names(&node, "web/local").await, ["aside", "below", "inner", "link", "pipe"]);
    let file = node.stat(&alloc, "alloc/data/shared.txt").await.unwrap();
    assert_eq!((file.name.as_str(), file.size, file.is_directory), ("shared.txt", 10, false));
    assert!(file.modified > 1_600_000_000_000_000_000, "{file:?}");
    assert!(node.stat(&alloc, "web/local/below").await.unwrap().is_directory);
    for (offset, limit, expected) in [(0, 100, "0123456789"), (3, 4, "3456"), (10, 1, "")] {
        let read = node.read(&alloc, "alloc/data/shared.txt", offset, limit).await.unwrap();
        assert_eq!(String::from_utf8(read).unwrap(), expected, "{offset} {limit}");
    }
    let read = node.read(&alloc, "/web/local/./below/config", 0, 100).await.unwrap();
    assert_eq!(read, b"port = 1");
}

#[tokio::test]
async fn nothing_leads_out_of_the_allocation_or_to_its_secrets() {
    let (_data, node) = node();
    let alloc: AllocId = ALLOC.into();
    for path in [
        "web/secrets/token",
        "web/secrets",
        "web/runs/1/spec.json",
        "web/task.json",
        "tasks/web/secrets/token",
        "../../key",
        "web/local/../secrets/token",
        "web/local/link",
        "web/local/aside/token",
        "web/local/inner/config",
        "web/local/pipe",
        "web/local",
    ] {
        let read = node.read(&alloc, path, 0, 100).await;
        assert!(matches!(read, Err(AllocAccessError::Refused(_))), "{path}: {read:?}");
    }
    for path in ["web/local/missing", "api/local/x", "alloc/x/y", "api"] {
        let read = node.stat(&alloc, path).await;
        assert!(matches!(read, Err(AllocAccessError::NoFile(_))), "{path}: {read:?}");
    }
    let of_link = node.stat(&alloc, "web/local/link").await.unwrap();
    assert_ne!(of_link.size, 16, "the facts are about the link");
    let listed = node.list(&alloc, "web/local/aside").await;
    assert!(matches!(listed, Err(AllocAccessError::Refused(_))), "{listed:?}");
    let other = node.stat(&"../a1".into(), "alloc").await;
    assert!(matches!(other, Err(AllocAccessError::NoFile(_))), "{other:?}");
}

#[tokio::test]
async fn nothing_is_sent_to_a_task_that_does_not_run() {
    let (_data, node) = node();
    let alloc = ALLOC.into();
    let signalled = node.signal(&alloc, Some("web"), "SIGHUP").await.unwrap_err();
    assert_eq!(signalled.to_string(), "task `web` of allocation `a1` does not run");
    let restarted = node.restart(&alloc, None).await.unwrap_err();
    assert_eq!(restarted.to_string(), "no task of allocation `a1` runs");
    let unknown = node.signal(&alloc, None, "SIGSOON").await.unwrap_err();
    assert!(matches!(unknown, AllocAccessError::Refused(_)), "{unknown:?}");
}
