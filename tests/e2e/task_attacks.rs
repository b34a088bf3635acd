//! Attacks of tasks on their host, as they succeeded once: what a task does to its directories, to `/proc`, to its
//! devices and to its limits must not change anything outside of it.
//!
//! A task of an attack runs this test program: the copy of it in the task's volume is started with the name of an
//! ignored test.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;

use nomad_csi_model::{Task, TaskEnvironment};
use nomad_csi_node::mounts::LinuxBlockStorage;
use nomad_csi_node::{NodeTaskLogs, RunEnd, TaskMount};
use nomad_csi_ports::{
    AssignedAlloc, AttachOptions, BlockStorage as _, DeviceTuning, LogOrigin, LogStream,
    TaskLogs as _, TaskOutput,
};
use rustix::fs::{CWD, RenameFlags};

use crate::alloc_runner::{ID, Node, alloc, drivers, mount, shell};
use crate::task_fixture::{TestRun, exec, exited, is_root, mount as mount_at};
use crate::task_root::{DeviceVolume, exec_request, run_command, run_isolated};

/// The file of the host that the attack is on.
const VICTIM: &str = "NOMAD_CSI_TEST_VICTIM";
const SHARED: [&str; 3] = ["data", "logs", "tmp"];
/// The attack succeeded within 40 restarts.
const RESTARTS: u32 = 60;

/// A task that runs an ignored test of this program.
fn attacker(node: &Node, test: &str, user: &str) -> Task {
    let tools = node.provide_volume();
    let program = std::env::current_exe().unwrap();
    std::fs::copy(program, tools.join("attack")).unwrap();
    let readable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&tools, readable).unwrap();
    let script = format!("exec /tools/attack --exact {test} --include-ignored --nocapture");
    let mut task = shell("attacker", "exec", &script);
    task.volume_mounts = vec![mount("/tools", true)];
    user.clone_into(&mut task.user);
    task
}

/// An allocation with two tasks beside each other.
fn pair(first: Task, second: Task) -> AssignedAlloc {
    let mut alloc = alloc(first);
    let job = Arc::make_mut(&mut alloc.job);
    job.groups[0].tasks.push(second);
    alloc
}

/// Returns what must not change of a file of the host.
fn facts(path: &Path) -> (u32, u32, u32, u64) {
    let found = std::fs::symlink_metadata(path).unwrap();
    (found.mode(), found.uid(), found.gid(), found.nlink())
}

/// Replaces the directories of the allocation by links to the victim as soon as the agent has created them.
#[test]
#[ignore = "a task of the tests below runs it"]
fn swap_directories() {
    let Some(victim) = std::env::var_os(VICTIM) else {
        return;
    };
    let alloc = Path::new("/alloc");
    for name in SHARED.into_iter().cycle() {
        let (path, other) = (alloc.join(name), alloc.join("other"));
        symlink(&victim, &other).ok();
        std::fs::remove_dir(&path).ok();
        for _ in 0..20_000 {
            if rustix::fs::renameat_with(CWD, &path, CWD, &other, RenameFlags::EXCHANGE).is_ok() {
                break;
            }
        }
        std::fs::remove_file(&path).ok();
        std::fs::remove_dir(&other).ok();
    }
}

async fn swap_beside_restarts(user: &str) {
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("secret");
    std::fs::write(&file, "content").unwrap();
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&file, private).unwrap();
    let directory = outside.path().join("directory");
    std::fs::create_dir(&directory).unwrap();
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&directory, private).unwrap();
    for victim in [&file, &directory] {
        let before = facts(victim);
        let node = Node::new();
        let mut attacker = attacker(&node, "task_attacks::swap_directories", user);
        let victim_path = victim.to_str().unwrap();
        attacker.environment = TaskEnvironment::from_iter([(VICTIM, victim_path)]);
        let mut restarting = shell("restarting", "exec", "exit 1");
        restarting.restart.attempts = RESTARTS;
        node.control.assign(pair(attacker, restarting));
        let report = node.status("failed").await;
        assert_eq!(
            facts(victim),
            before,
            "after {} restarts beside {user}",
            report.tasks["restarting"].restarts
        );
        assert!(node.data.path().join("allocs").join(ID).exists());
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "content");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn a_task_of_nobody_that_swaps_directories_changes_nothing_of_the_host() {
    let test = "task_attacks::a_task_of_nobody_that_swaps_directories_changes_nothing_of_the_host";
    run_isolated(test, || swap_beside_restarts("nobody"));
}

#[test]
fn a_task_of_root_that_swaps_directories_changes_nothing_of_the_host() {
    let test = "task_attacks::a_task_of_root_that_swaps_directories_changes_nothing_of_the_host";
    run_isolated(test, || swap_beside_restarts("root"));
}

/// Runs a script as root in a task, and returns what it wrote.
async fn output_of_root(run: &TestRun, script: &str, mounts: Vec<TaskMount>) -> Vec<String> {
    let end = run.end_of(exec_request(script, mounts)).await;
    let errors = run.lines(LogStream::Stderr).await;
    assert_eq!(end, exited(0), "{errors:?}");
    run.lines(LogStream::Stdout).await
}

/// A volume below another one: a task of the outer one may replace its directory by a link to the host.
#[test]
fn a_volume_that_a_task_replaced_by_a_link_is_not_mounted() {
    let test = "task_attacks::a_volume_that_a_task_replaced_by_a_link_is_not_mounted";
    run_isolated(test, || async {
        let base = tempfile::tempdir().unwrap();
        let outer = base.path().join("outer");
        std::fs::create_dir_all(outer.join("inner/deep")).unwrap();
        let host = base.path().join("host");
        std::fs::create_dir_all(host.join("deep")).unwrap();
        std::fs::write(host.join("file"), "of the host\n").unwrap();
        let run = TestRun::new(exec(), base.path());
        let script = format!("mv /outer/inner /outer/old && ln -s {} /outer/inner", host.display());
        output_of_root(&run, &script, vec![mount_at(&outer, "/outer")]).await;
        for source in ["inner", "inner/deep"] {
            let run = TestRun::new(exec(), base.path());
            let source = outer.join(source);
            let mounts = vec![mount_at(&source, "/inner")];
            let end = run.end_of(exec_request("echo x > /inner/file", mounts)).await;
            let reason = format!(
                "cannot mount `{}`: a symbolic link is on the way, and a mount follows none",
                source.display()
            );
            assert_eq!(end, RunEnd::Failed { reason });
        }
        assert_eq!(std::fs::read_to_string(host.join("file")).unwrap(), "of the host\n");
    });
}

/// No file of the kernel can be opened for writing, whatever its name, and what only root may read is empty.
#[tokio::test]
async fn root_in_a_task_changes_nothing_of_the_kernel_and_reads_none_of_its_secrets() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let run = TestRun::new(exec(), base.path());
    let script = "find /proc /sys -path '/proc/[0-9]*' -prune -o -type f -perm /222 -print 2>/dev/null > /tmp/files; \
                  wc -l < /tmp/files; \
                  while read file; do test -c $file && continue; ( : >> $file ) 2>/dev/null && echo \"writable $file\"; done < /tmp/files; \
                  for file in keys kcore kmsg timer_list sched_debug vmallocinfo interrupts; do \
                  test -s /proc/$file && echo \"$file has a size\"; head -c 1 /proc/$file 2>/dev/null | wc -c | grep -v 0; \
                  done; ls -A /sys/firmware /sys/kernel/debug /sys/kernel/security /sys/devices/virtual/block \
                  2>/dev/null | grep -v : | grep .; cat /sys/class/block/loop*/loop/backing_file 2>/dev/null; \
                  echo x > /proc/self/comm && echo own";
    let lines = output_of_root(&run, script, vec![]).await;
    let found: usize = lines[0].parse().unwrap();
    assert!(found > 20, "the files are still listed: {lines:?}");
    assert_eq!(lines[1..], ["own"]);
}

/// A file that only root may read stays hidden from root in a task, also one that is replaced in the meantime.
#[test]
fn root_in_a_task_reads_no_file_of_the_host_that_nobody_could_not_read() {
    let test = "task_attacks::root_in_a_task_reads_no_file_of_the_host_that_nobody_could_not_read";
    run_isolated(test, || async {
        run_command(&["mount", "-t", "tmpfs", "tmpfs", "/usr/local"]);
        let directory = Path::new("/usr/local");
        let write = |name: &str, mode: u32| {
            let new = directory.join("new");
            std::fs::write(&new, format!("{name}\n")).unwrap();
            std::fs::set_permissions(&new, std::fs::Permissions::from_mode(mode)).unwrap();
            std::fs::rename(new, directory.join(name)).unwrap();
        };
        write("key", 0o600);
        write("group", 0o640);
        write("public", 0o644);
        std::fs::create_dir(directory.join("private")).unwrap();
        std::fs::write(directory.join("private/open"), "open").unwrap();
        let closed = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(directory.join("private"), closed).unwrap();
        let base = tempfile::tempdir().unwrap();
        let volume = base.path().join("volume");
        std::fs::create_dir(&volume).unwrap();
        let run = TestRun::new(exec(), base.path());
        let script = "read_all() { cat /etc/shadow /etc/gshadow /usr/local/key /usr/local/group /usr/local/private/open \
                      2>/dev/null; cat /usr/local/public; }; read_all; echo ready; \
                      until [ -e /data/go ]; do sleep 0.02; done; read_all; id -u; touch /data/own; \
                      chmod 600 /data/own && cat /data/own";
        let mounts = vec![mount_at(&volume, "/data")];
        run.start(exec_request(script, mounts)).await;
        run.wait_for_line("ready").await;
        write("key", 0o600);
        write("public", 0o644);
        std::fs::write(volume.join("go"), "").unwrap();
        assert_eq!(run.wait().await, exited(0));
        let lines = run.lines(LogStream::Stdout).await;
        assert_eq!(lines, ["public", "ready", "public", "0"]);
        run_command(&["umount", "/usr/local"]);
    });
}

#[tokio::test]
async fn a_task_has_ipc_names_and_keys_of_its_own() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let segment = run_command(&["ipcmk", "-M", "64"]);
    let id = segment.rsplit(' ').next().unwrap();
    let run = TestRun::new(exec(), base.path());
    let script = "ipcs -m | grep -c 0x; readlink /proc/self/ns/ipc /proc/self/ns/uts; cat /proc/keys | wc -l";
    let lines = output_of_root(&run, script, vec![]).await;
    run_command(&["ipcrm", "-m", id]);
    assert_eq!((lines[0].as_str(), lines[3].as_str()), ("0", "0"), "{lines:?}");
    for (line, name) in [(1, "ipc"), (2, "uts")] {
        let of_host = std::fs::read_link(Path::new("/proc/self/ns").join(name)).unwrap();
        assert_ne!(Path::new(&lines[line]), of_host);
    }
}

/// Memory that a task can use up without a limit of its own.
#[tokio::test]
async fn the_memory_file_systems_of_a_task_have_sizes() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let run = TestRun::new(exec(), base.path());
    let script = "for place in / /tmp /dev /dev/shm; do stat -f -c '%b %S' $place; done";
    let lines = output_of_root(&run, script, vec![]).await;
    let sizes: Vec<u64> = lines
        .iter()
        .map(|line| {
            let (blocks, size) = line.split_once(' ').unwrap();
            blocks.parse::<u64>().unwrap() * size.parse::<u64>().unwrap()
        })
        .collect();
    assert_eq!(sizes, [4 << 20, 256 << 20, 64 << 10, 64 << 20]);
}

/// The numbers of calls are those of this architecture. Every request of a loop device is refused, also with bits that the kernel does not look at. The device stays what it
/// is.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_task_cannot_detach_its_block_device() {
    let test = "task_attacks::a_task_cannot_detach_its_block_device";
    run_isolated(test, || async {
        let base = tempfile::tempdir().unwrap();
        let image = base.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(1 << 20).unwrap();
        let device = run_command(&["losetup", "--find", "--show", image.to_str().unwrap()]);
        let run = TestRun::new(exec(), base.path());
        let script = "perl -e 'open(F, \"+<\", \"/blk\") or die; \
                      for $request (0x4C00..0x4CFF, 0x100004C01, 0xffffffff00004C06) { \
                      my $done = syscall(16, fileno(F), $request, 0); \
                      print \"allowed $request\\n\" if $done != -1 || !$!{EPERM} }'; \
                      /usr/sbin/losetup -d /blk 2>/dev/null && echo detached; \
                      echo content | dd of=/blk conv=notrunc,fsync status=none; head -c 8 /blk; \
                      /usr/sbin/blockdev --getsize64 /blk";
        let mounts = vec![mount_at(Path::new(&device), "/blk")];
        let lines = output_of_root(&run, script, mounts).await;
        let attached = run_command(&["losetup", "--noheadings", "--output", "BACK-FILE", &device]);
        run_command(&["losetup", "--detach", &device]);
        assert_eq!(lines, ["content", "1048576"]);
        assert_eq!(Path::new(&attached), image);
    });
}

/// The node of a device is the host's, also that of a volume: what a task does to it stays for its next user. Each value
/// is written as it was, so that the test changes nothing where it fails.
#[test]
fn root_in_a_task_cannot_change_the_nodes_of_devices() {
    let test = "task_attacks::root_in_a_task_cannot_change_the_nodes_of_devices";
    run_isolated(test, || async {
        let base = tempfile::tempdir().unwrap();
        let volume = DeviceVolume::create(base.path());
        run_command(&["umount", volume.path()]);
        let run = TestRun::new(exec(), base.path());
        let script = "cd /dev; for node in null zero full random urandom tty /blk; do \
                      chmod $(stat -c %a $node) $node 2>/dev/null && echo \"mode of $node\"; \
                      chown $(stat -c %u:%g $node) $node 2>/dev/null && echo \"owner of $node\"; \
                      touch -d @$(stat -c %Y $node) $node 2>/dev/null && echo \"time of $node\"; done; \
                      echo x > /dev/null && head -c 3 /dev/zero | wc -c; \
                      echo content | dd of=/blk conv=notrunc,fsync status=none; head -c 8 /blk";
        let mounts = vec![mount_at(Path::new(&volume.device), "/blk")];
        let lines = output_of_root(&run, script, mounts).await;
        run_command(&["losetup", "--detach", &volume.device]);
        assert_eq!(lines, ["3", "content"]);
    });
}

/// A node may be as its last user left it.
#[test]
fn the_node_of_a_device_is_private_before_it_shows_a_volume() {
    let test = "task_attacks::the_node_of_a_device_is_private_before_it_shows_a_volume";
    run_isolated(test, || async {
        let base = tempfile::tempdir().unwrap();
        let image = base.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(1 << 20).unwrap();
        // Which of the free devices it gets is not known.
        let free = |number: &u32| {
            std::fs::read(format!("/sys/block/loop{number}/loop/backing_file")).is_err()
        };
        let nodes = (0..16).filter(free).map(|number| format!("/dev/loop{number}"));
        let nodes = nodes.filter_map(|node| Some((std::fs::metadata(&node).ok()?, node)));
        let nodes: Vec<_> = nodes.collect();
        for (_, node) in &nodes {
            let open = std::fs::Permissions::from_mode(0o666);
            std::fs::set_permissions(node, open).unwrap();
        }
        let how = AttachOptions { read_only: false, persistent: false };
        let storage = LinuxBlockStorage::default();
        let device = storage.attach(&image, how, &DeviceTuning::default()).unwrap();
        let found = std::fs::metadata(&device.path).unwrap();
        for (before, node) in &nodes {
            std::fs::set_permissions(node, before.permissions()).unwrap();
        }
        assert_eq!((found.mode() & 0o777, found.uid(), found.gid()), (0o600, 0, 0));
    });
}

/// Root in a task has the user of its supervisor, and nothing else is needed to lower limits: without files to open, a
/// supervisor could never record the end of the run.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn a_task_changes_no_limits_of_its_supervisor() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let run = TestRun::new(exec(), base.path());
    // prlimit64 of process 1 and of the caller: RLIMIT_NOFILE and RLIMIT_FSIZE.
    let script = "exec perl -e 'my $most = pack(\"QQ\", 64, 64); for my $limit (7, 1) { \
                  for my $process (1, 0) { \
                  my $done = syscall(302, $process, $limit, $most, 0); \
                  print \"$process \", $done == 0 ? \"changed\" : $!{EPERM} ? \"refused\" : $!, \"\\n\" } }'";
    let lines = output_of_root(&run, script, vec![]).await;
    let expected = ["1 refused", "0 changed"];
    assert_eq!(lines, [expected, expected].concat());
}

/// A program of 32 bits that exits with status 7: its numbers of system calls are others, which no filter knows.
#[cfg(target_arch = "x86_64")]
const OF_32_BITS: &[u8] = &[
    0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, // ELF, 32 bits
    2, 0, 3, 0, 1, 0, 0, 0, 0x54, 0x80, 0x04, 0x08, 0x34, 0, 0, 0, // i386, entry, headers
    0, 0, 0, 0, 0, 0, 0, 0, 0x34, 0, 0x20, 0, 1, 0, 0, 0, 0, 0, 0, 0, //
    1, 0, 0, 0, 0, 0, 0, 0, 0x00, 0x80, 0x04, 0x08, 0x00, 0x80, 0x04, 0x08, // one segment
    0x60, 0, 0, 0, 0x60, 0, 0, 0, 5, 0, 0, 0, 0, 0x10, 0, 0, //
    0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80, // exit(7)
];

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn a_program_of_another_architecture_is_ended_before_its_first_call() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let tools = base.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    std::fs::write(tools.join("program"), OF_32_BITS).unwrap();
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(tools.join("program"), executable).unwrap();
    let on_host = std::process::Command::new(tools.join("program")).status();
    if on_host.ok().and_then(|status| status.code()) != Some(7) {
        eprintln!("SKIPPED: this kernel runs no programs of 32 bits");
        return;
    }
    let run = TestRun::new(exec(), base.path());
    let script = "/tools/program; echo $?";
    let lines = output_of_root(&run, script, vec![mount_at(&tools, "/tools")]).await;
    assert_eq!(lines, ["159"], "128 and SIGSYS");
}

/// What a container may not call, a task may not: each is refused in the same way.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn calls_that_a_container_has_not_are_refused() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let run = TestRun::new(exec(), base.path());
    let script = "for flag in --user --mount --ipc --uts --net --pid --cgroup; do \
                  unshare $flag true 2>&1 | grep -c 'Operation not permitted'; done; \
                  perl -e 'for $call (250, 248, 249, 321, 298, 304, 425, 175, 246, 165, 169) { \
                  $! = 0; syscall($call, 0, 0, 0, 0, 0); print $!{EPERM} ? 1 : \"$call $!\", \"\\n\" }'; \
                  (sleep 0.01 & wait) && python3 -c 'print(1)' 2>/dev/null || echo 1";
    let lines = output_of_root(&run, script, vec![]).await;
    assert_eq!(lines, ["1"; 19]);
}

/// A task that is restarted without end keeps no more output than one that runs on.
#[tokio::test]
async fn restarts_and_their_output_have_one_limit() {
    if !is_root() {
        return;
    }
    const FILES: u64 = 10;
    const FILE: u64 = 10 << 20;
    let node = Node::new();
    let directory = node.data.path().join("allocs").join(ID).join("tasks/loud");
    let mut task =
        shell("loud", "raw_exec", "echo first; head -c 15000000 /dev/zero; echo last; exit 1");
    task.restart.attempts = 14;
    node.control.assign(alloc(task));
    let kept = || {
        let runs = std::fs::read_dir(directory.join("runs")).into_iter().flatten();
        let runs: Vec<_> = runs.map(|run| run.unwrap().path()).collect();
        let files = runs.iter().flat_map(|run| std::fs::read_dir(run).into_iter().flatten());
        let files = files.filter_map(Result::ok);
        let output = files.filter(|file| file.file_name().to_string_lossy().starts_with("stdout."));
        // A file that was removed for one that came while the directories were read is not kept.
        let listed: Vec<_> = output.collect();
        let sizes = listed.iter().filter_map(|file| Some(file.metadata().ok()?.len()));
        let sizes: Vec<_> = sizes.collect();
        (runs.len(), sizes)
    };
    let ended = node.status("failed");
    tokio::pin!(ended);
    loop {
        let (runs, sizes) = kept();
        assert!(runs <= 11, "{runs} runs");
        assert!(sizes.len() as u64 <= FILES, "{sizes:?}");
        assert!(sizes.iter().all(|size| *size <= FILE), "{sizes:?}");
        let pause = std::time::Duration::from_millis(5);
        if let Ok(report) = tokio::time::timeout(pause, &mut ended).await {
            assert_eq!(report.tasks["loud"].restarts, 14);
            break;
        }
    }
    let (runs, sizes) = kept();
    assert_eq!((runs, sizes.len()), (10, 10), "{sizes:?}");
    // The newest five runs have two files each, and are read as one output.
    let logs = NodeTaskLogs::new(node.data.path().to_owned(), drivers());
    let output =
        TaskOutput { alloc: ID.into(), task: "loud".to_owned(), stream: LogStream::Stdout };
    let begin = logs.locate(&output, LogOrigin::Start, 0).await.unwrap();
    assert_eq!((begin.run, begin.file, begin.offset), (11, 0, 0));
    let first = logs.read(&output, begin, 6).await.unwrap();
    assert_eq!(first.data, b"first\n");
    let end = logs.locate(&output, LogOrigin::End, 5).await.unwrap();
    assert_eq!(logs.read(&output, end, 99).await.unwrap().data, b"last\n");
}
