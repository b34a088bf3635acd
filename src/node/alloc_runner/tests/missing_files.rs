//! The files of a task that has started are gone: what the server knows of it counts.

use super::fixture::{ID, Node, alloc, task};
use nomad_csi_model::JobType;

/// Whatever became of the task, it does not start again.
#[tokio::test(start_paused = true)]
async fn a_task_whose_files_are_gone_does_not_start_again() {
    for removed in ["", "tasks", "tasks/web", "tasks/web/runs"] {
        let mut node = Node::new();
        let tasks = vec![task("web", "main")];
        node.control.assign(alloc(JobType::Service, tasks, &[]));
        node.status("running").await;
        node.stop_agent().await;
        let directory = node.data.path().join("allocs").join(ID);
        let elsewhere = node.data.path().join("elsewhere");
        std::fs::rename(directory.join(removed), elsewhere).unwrap();
        node.start_agent();
        let report = node.status("failed").await;
        let reason = "the files of task `web` were removed after it had started";
        assert!(report.description.starts_with(reason), "{removed}: {}", report.description);
        assert!(report.tasks["web"].has_failed);
        assert_eq!(node.driver.starts().len(), 1, "{removed}");
    }
}

/// A task that has not started has no files that could be missing.
#[tokio::test(start_paused = true)]
async fn a_task_that_never_started_starts() {
    let mut node = Node::new();
    node.stop_agent().await;
    let tasks = vec![task("web", "main")];
    node.control.assign(alloc(JobType::Service, tasks, &[]));
    node.start_agent();
    node.status("running").await;
    assert_eq!(node.driver.starts().len(), 1);
}
