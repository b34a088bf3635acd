use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

use super::*;

const LONG: Duration = Duration::from_secs(30 * 60);

/// A plugin behind a socket of this process, which the kernel names as the listener.
struct Bed {
    directory: tempfile::TempDir,
    _listener: UnixListener,
}

impl Bed {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let _listener = UnixListener::bind(directory.path().join("csi.sock")).unwrap();
        Self { directory, _listener }
    }

    fn record(&self) -> PathBuf {
        self.directory.path().join("plugin.process")
    }

    fn plugin(&self) -> RunningPlugin {
        let socket = self.directory.path().join("csi.sock");
        RunningPlugin::new("ebs".to_owned(), socket, self.record(), LONG)
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap()
}

/// A process that runs until it is killed, and its record as a plugin's.
fn other_process(record: &Path) -> Child {
    let mut child =
        Command::new("/bin/sh").args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap();
    process_file::write(record, i32::try_from(child.id()).unwrap()).unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    child
}

async fn refusal(plugin: &RunningPlugin) -> DriverError {
    plugin.start().await.err().unwrap()
}

#[tokio::test]
async fn the_process_behind_the_socket_is_recorded() {
    let bed = Bed::new();
    let task = bed.plugin().start().await.unwrap();
    let recorded = process_file::read(&bed.record()).unwrap().unwrap();
    assert_eq!(recorded.pid, own_pid());
    let peer = PeerProcess { pid: recorded.pid, start_time: recorded.start_time };
    assert_eq!(task.required_peer(), Some(peer));
}

#[test]
fn a_record_says_whether_its_process_runs() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("plugin.process");
    assert_eq!(process_on_record(&record).unwrap(), ProcessRecord::None);
    let mut child = other_process(&record);
    let pid = i32::try_from(child.id()).unwrap();
    assert_eq!(process_on_record(&record).unwrap(), ProcessRecord::Runs(pid));
    let process = process_file::read(&record).unwrap().unwrap();
    process_file::record_idle(&record, &process).unwrap();
    assert_eq!(process_on_record(&record).unwrap(), ProcessRecord::Idle(pid));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(process_on_record(&record).unwrap(), ProcessRecord::Exited);
    std::fs::write(&record, "damaged").unwrap();
    process_on_record(&record).unwrap_err();
}

#[tokio::test]
async fn a_socket_without_a_listener_is_an_error() {
    let bed = Bed::new();
    std::fs::remove_file(bed.directory.path().join("csi.sock")).unwrap();
    let error = refusal(&bed.plugin()).await;
    assert_eq!(error.to_string(), "cannot use task ebs");
    assert!(error.source.to_string().starts_with("nothing listens on"));
    assert_ne!(error.source.kind(), io::ErrorKind::ResourceBusy);
}

/// Its socket is gone, and it is not.
#[tokio::test]
async fn a_process_on_record_that_nothing_leads_to_is_left_running() {
    let bed = Bed::new();
    std::fs::remove_file(bed.directory.path().join("csi.sock")).unwrap();
    let mut earlier = other_process(&bed.record());
    for is_idle in [false, true] {
        if is_idle {
            let process = process_file::read(&bed.record()).unwrap().unwrap();
            process_file::record_idle(&bed.record(), &process).unwrap();
        }
        let error = refusal(&bed.plugin()).await;
        assert!(error.source.to_string().starts_with("nothing listens on"));
        assert!(error.leaves_process());
    }
    earlier.kill().unwrap();
    earlier.wait().unwrap();
    assert!(!refusal(&bed.plugin()).await.leaves_process());
}

/// Rule 3 of claims: a call of a killed agent may still run in the process that it used.
#[tokio::test]
async fn a_process_of_an_agent_that_was_killed_is_used_after_the_longest_call() {
    let bed = Bed::new();
    drop(bed.plugin().start().await.unwrap());
    let next = bed.plugin();
    let error = refusal(&next).await;
    assert_eq!(error.source.kind(), io::ErrorKind::ResourceBusy);
    assert!(error.source.to_string().contains("at most 30 min"));
    let later = RunningPlugin { earlier_calls_end: Instant::now(), ..next };
    assert!(later.start().await.is_ok());
}

/// The calls run in the recorded process, also if another one has its socket now, and what they were answered with an error
/// may still take effect there. No time says that they have ended.
#[tokio::test]
async fn another_process_is_used_once_the_recorded_one_has_exited() {
    let bed = Bed::new();
    let mut earlier = other_process(&bed.record());
    for is_idle in [false, true] {
        if is_idle {
            let process = process_file::read(&bed.record()).unwrap().unwrap();
            process_file::record_idle(&bed.record(), &process).unwrap();
        }
        let later = RunningPlugin { earlier_calls_end: Instant::now(), ..bed.plugin() };
        for plugin in [bed.plugin(), later] {
            let error = refusal(&plugin).await;
            assert!(error.leaves_process(), "{is_idle}");
            let text = error.source.to_string();
            let advice = format!("process {}, which the agent used", earlier.id());
            assert!(text.starts_with(&advice) && text.contains("end it, and"), "{text}");
        }
        let recorded = process_file::read(&bed.record()).unwrap().unwrap();
        assert_ne!(recorded.pid, own_pid(), "{is_idle}");
    }
    earlier.kill().unwrap();
    earlier.wait().unwrap();
    assert!(bed.plugin().start().await.is_ok());
}

#[tokio::test]
async fn an_agent_that_stopped_without_calls_leaves_a_plugin_that_can_be_used() {
    let bed = Bed::new();
    let task = bed.plugin().start().await.unwrap();
    assert_eq!(task.stop(true).await.unwrap(), StoppedProcess::LeftIdle);
    assert_eq!(process_on_record(&bed.record()).unwrap(), ProcessRecord::Idle(own_pid()));
    let task = bed.plugin().start().await.unwrap();
    assert_eq!(task.stop(false).await.unwrap(), StoppedProcess::LeftBusy);
    assert_eq!(process_on_record(&bed.record()).unwrap(), ProcessRecord::Runs(own_pid()));
    let error = refusal(&bed.plugin()).await;
    assert_eq!(error.source.kind(), io::ErrorKind::ResourceBusy);
}

/// A disk that is full, or a directory that is gone: the process lives, so it stays on record.
#[tokio::test]
async fn a_process_whose_record_cannot_be_written_is_not_gone() {
    let bed = Bed::new();
    let task = bed.plugin().start().await.unwrap();
    std::fs::remove_file(bed.record()).unwrap();
    std::fs::create_dir(bed.record()).unwrap();
    assert_eq!(task.stop(true).await.unwrap(), StoppedProcess::LeftBusy);
    assert!(refusal(&bed.plugin()).await.leaves_process());
}

#[tokio::test]
async fn the_end_of_the_process_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("plugin.process");
    let mut child = other_process(&record);
    let recorded = process_file::read(&record).unwrap().unwrap();
    let process = RunningProcess {
        name: "ebs".to_owned(),
        descriptor: register(recorded.open().unwrap().unwrap()).unwrap(),
        process: recorded,
        process_file: record,
    };
    assert!(!process.has_exited());
    child.kill().unwrap();
    assert_eq!(process.wait().await, "exited");
    assert_eq!(process.stop(false).await.unwrap(), StoppedProcess::Exited);
    child.wait().unwrap();
}

/// Who is root may run it, and so may a user that the operator named.
#[tokio::test]
async fn a_socket_of_a_stranger_is_not_used() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let stranger = 61_234;
    for (owns_directory, owns_socket) in [(true, false), (false, true), (true, true)] {
        let bed = Bed::new();
        let socket = bed.directory.path().join("csi.sock");
        for (path, is_foreign) in [(bed.directory.path(), owns_directory), (&socket, owns_socket)] {
            if is_foreign {
                std::os::unix::fs::chown(path, Some(stranger), None).unwrap();
            }
        }
        let refused = refusal(&bed.plugin()).await.source.to_string();
        assert!(refused.contains("belongs to user ID 61234"), "{refused}");
        assert!(refused.contains("`--plugin-endpoint-user 61234`"), "{refused}");
        assert!(bed.plugin().check().await.is_err());
        let trusting = bed.plugin().with_users(vec![stranger]);
        trusting.start().await.unwrap();
    }
    let bed = Bed::new();
    let moved = bed.directory.path().join("moved");
    std::fs::rename(bed.directory.path().join("csi.sock"), &moved).unwrap();
    std::os::unix::fs::symlink(&moved, bed.directory.path().join("csi.sock")).unwrap();
    let refused = refusal(&bed.plugin()).await.source.to_string();
    assert!(refused.contains("is not a socket"), "{refused}");
}
