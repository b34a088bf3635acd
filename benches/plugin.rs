//! The embedded plugin as a separate process: wall time, CPU time of the plugin, and its memory.
//!
//! Run `cargo bench --bench plugin`, as root for images and devices. `NOMAD_CSI_BENCH_DIR` sets the
//! directory of the state, to measure another file system, such as one with reflinks. A disk shows the
//! cost of syncs, a file system in memory does not. Words after `--` select parts (`rates`, `floor`,
//! `lists`, `copies`).
//!
//! `rates` measures calls per second with one caller and with 16. `NOMAD_CSI_BENCH_PEER` names the
//! program of the Kubernetes hostpath driver, to measure it beside this plugin. `floor` makes the same
//! system calls without a plugin.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failing benchmark must stop with a message"
)]

use std::ffi::OsStr;
use std::future::Future;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use nomad_csi_proto as proto;
use nomad_csi_proto::volume_capability::access_mode::Mode;

#[path = "../tests/support/plugin_client.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod plugin_client;
#[path = "../tests/support/plugin_process.rs"]
mod plugin_process;
#[path = "../tests/support/wait.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod wait;

use plugin_client::{Client, Publish, clone_of, mount, named, sized};
use plugin_process::{PluginProcess, plugin_command, socket_in};

const MIB: i64 = 1 << 20;
/// The clock ticks per second of the kernel's CPU times.
const TICKS: f64 = 100.0;

fn base() -> PathBuf {
    std::env::var_os("NOMAD_CSI_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from)
}

struct Plugin {
    running: PluginProcess,
    directory: tempfile::TempDir,
}

impl Plugin {
    async fn start() -> Self {
        let directory = tempfile::tempdir_in(base()).unwrap();
        let command = plugin_command(directory.path(), &["--overcommit"]);
        let running =
            PluginProcess::run(command, directory.path(), &socket_in(directory.path())).await;
        Self { running, directory }
    }

    /// Starts the Kubernetes hostpath driver.
    async fn start_peer(program: &OsStr) -> Self {
        let directory = tempfile::tempdir_in(base()).unwrap();
        let socket = directory.path().join("csi.sock");
        let mut command = Command::new(program);
        command
            .args(["--nodeid", "n", "--endpoint"])
            .arg(format!("unix://{}", socket.display()))
            .arg("--statedir")
            .arg(directory.path().join("state"))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        std::fs::create_dir(directory.path().join("state")).unwrap();
        let running = PluginProcess::run(command, directory.path(), &socket).await;
        Self { running, directory }
    }

    fn about(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.running.process.0.id())).unwrap()
    }

    /// Returns user and system time, including child processes.
    fn cpu(&self) -> f64 {
        let stat = self.about("stat");
        let after_name = stat.rsplit(')').next().unwrap().split_whitespace();
        let ticks: u32 =
            after_name.skip(11).take(4).map(|ticks| ticks.parse::<u32>().unwrap()).sum();
        f64::from(ticks) / TICKS
    }

    fn memory(&self) -> String {
        let status = self.about("status");
        let kilobytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim_start_matches(':').trim().to_owned()
        };
        let (own, all) = (kilobytes("RssAnon"), kilobytes("VmRSS"));
        format!("private memory {own}, {all} with the program's text")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Measures one piece of work and prints its total time.
async fn measure(plugin: &mut Plugin, what: &str, work: impl AsyncFnOnce(&mut Client)) {
    let (begun, cpu) = (Instant::now(), plugin.cpu());
    let mut client = plugin.running.client.clone();
    work(&mut client).await;
    let (wall, cpu) = (begun.elapsed(), plugin.cpu() - cpu);
    println!("{what}: {wall:.2?}, CPU {cpu:.2}s, {}", plugin.memory());
}

fn directory(name: &str) -> proto::CreateVolumeRequest {
    proto::CreateVolumeRequest {
        parameters: [("backing".to_owned(), "directory".to_owned())].into(),
        ..named(name)
    }
}

fn image(name: &str) -> proto::CreateVolumeRequest {
    sized(name, 64 * MIB)
}

/// Runs `count` calls with some callers. Prints calls per second, and the plugin's CPU time per call.
async fn rate<F: Future<Output = ()> + Send>(
    plugin: &Plugin,
    what: &str,
    callers: usize,
    count: usize,
    call: impl Fn(Client, usize, usize) -> F + Clone + Send + 'static,
) {
    let (begun, cpu) = (Instant::now(), plugin.cpu());
    let running = (0..callers).map(|caller| {
        let (client, call) = (plugin.running.client.clone(), call.clone());
        tokio::spawn(async move {
            for number in (caller..count).step_by(callers) {
                call(client.clone(), caller, number).await;
            }
        })
    });
    for caller in running.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let count = f64::from(u32::try_from(count).unwrap());
    let per_second = count / begun.elapsed().as_secs_f64();
    let cpu = (plugin.cpu() - cpu) / count * 1e3;
    println!("{what}, {callers} callers: {per_second:.0} a second, CPU {cpu:.2} ms each");
}

type Request = fn(&str) -> proto::CreateVolumeRequest;

/// Creates volumes and returns their IDs.
async fn create(
    plugin: &Plugin,
    what: &str,
    callers: usize,
    count: usize,
    request: Request,
) -> Vec<String> {
    let ids = Arc::new(Mutex::new(vec![]));
    let (made, prefix) = (ids.clone(), format!("{what} {callers}"));
    let call = move |mut client: Client, _, number: usize| {
        let (made, name) = (made.clone(), format!("{prefix} {number}"));
        async move {
            let id = client.try_create(request(&name)).await.unwrap();
            made.lock().unwrap().push(id);
        }
    };
    rate(plugin, &format!("create, {what}"), callers, count, call).await;
    std::mem::take(&mut *ids.lock().unwrap())
}

async fn delete(plugin: &Plugin, what: &str, callers: usize, ids: Vec<String>) {
    let count = ids.len();
    let ids = Arc::new(ids);
    let call = move |mut client: Client, _, number: usize| {
        let ids = ids.clone();
        async move { client.delete(&ids[number]).await.unwrap() }
    };
    rate(plugin, &format!("delete, {what}"), callers, count, call).await;
}

/// Stages, publishes, unpublishes and unstages every volume.
async fn lives(plugin: &Plugin, what: &str, callers: usize, ids: &[String]) {
    let base = plugin.directory.path().to_owned();
    let (ids, count) = (Arc::new(ids.to_vec()), ids.len());
    for caller in 0..callers {
        std::fs::create_dir_all(base.join(format!("staging-{caller}"))).unwrap();
    }
    let call = move |mut client: Client, caller: usize, number: usize| {
        let ids = ids.clone();
        let staging = base.join(format!("staging-{caller}"));
        let target = base.join(format!("target-{caller}"));
        async move {
            let (id, capability) = (&ids[number], mount(Mode::SingleNodeWriter, &[]));
            let staged = client.stage(id, &staging, capability.clone()).await;
            staged.unwrap();
            let publish =
                Publish { id, staging: &staging, target: &target, capability, read_only: false };
            client.publish(publish).await.unwrap();
            client.unpublish(id, &target).await.unwrap();
            client.unstage(id, &staging).await.unwrap();
        }
    };
    let what = format!("stage to unstage, {what}");
    rate(plugin, &what, callers, count, call).await;
}

/// Measures all calls with one caller and with 16 on a plugin that has `others` more volumes.
async fn rates_with(plugin: &Plugin, what: &str, request: Request, others: usize) {
    let what = format!("{what}, {others} others");
    for (callers, count) in [(1, 400), (16, 3200)] {
        let unused = create(plugin, &what, callers, count, request).await;
        delete(plugin, &format!("{what}, never used"), callers, unused).await;
    }
    for (callers, count) in [(1, 200), (16, 400)] {
        let used = create(plugin, &format!("{what}, to use"), callers, count, request).await;
        lives(plugin, &format!("{what}, first"), callers, &used).await;
        lives(plugin, &format!("{what}, again"), callers, &used).await;
        delete(plugin, &format!("{what}, used"), callers, used).await;
    }
}

/// Measures calls that do nothing: the cost of the protocol.
async fn empty_calls(plugin: &Plugin) {
    for (callers, count) in [(1, 2000), (16, 16_000)] {
        let call = |mut client: Client, _, _| async move {
            client.identity.probe(proto::ProbeRequest {}).await.unwrap();
        };
        rate(plugin, "probe", callers, count, call).await;
    }
}

async fn rates() {
    let plugin = Plugin::start().await;
    empty_calls(&plugin).await;
    rates_with(&plugin, "directory", directory, 0).await;
    rates_with(&plugin, "image", image, 0).await;
    create(&plugin, "10,000 directories", 16, 10_000, directory).await;
    rates_with(&plugin, "directory", directory, 10_000).await;
    println!("{}", plugin.memory());
    if let Some(program) = std::env::var_os("NOMAD_CSI_BENCH_PEER") {
        println!("the Kubernetes hostpath driver:");
        let peer = Plugin::start_peer(&program).await;
        empty_calls(&peer).await;
        rates_with(&peer, "directory", named, 0).await;
    }
}

/// Writes a file as one transaction of the catalogue does: pages and a sync, then the header and a
/// sync.
fn write_catalog(file: &std::fs::File, turn: u64) {
    for page in 0..8 {
        let at = (1 + turn % 64 * 8 + page) * 4096;
        file.write_all_at(&[7; 4096], at).unwrap();
    }
    file.write_all_at(&[1; 320], 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(&[2; 320], 0).unwrap();
    file.sync_data().unwrap();
}

/// Times `count` rounds of bare system calls.
fn measure_floor(what: &str, count: u64, mut round: impl FnMut(u64)) {
    let begun = Instant::now();
    (0..count).for_each(&mut round);
    let count = f64::from(u32::try_from(count).unwrap());
    let per_second = count / begun.elapsed().as_secs_f64();
    println!("bare system calls, {what}: {per_second:.0} a second");
}

fn floor() {
    use rustix::mount::{UnmountFlags, mount_bind, unmount};
    let directory = tempfile::tempdir_in(base()).unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::create_dir(path("volumes")).unwrap();
    let volumes = std::fs::File::open(path("volumes")).unwrap();
    let file = std::fs::File::create(path("catalog")).unwrap();
    file.set_len(4 << 20).unwrap();
    file.write_all_at(&vec![0; 4 << 20], 0).unwrap();
    file.sync_all().unwrap();
    measure_floor("one sync", 1000, |turn| {
        file.write_all_at(&[7; 4096], turn % 64 * 4096).unwrap();
        file.sync_data().unwrap();
    });
    measure_floor("create a volume", 1000, |turn| write_catalog(&file, turn));
    for turn in 0..1000 {
        std::fs::create_dir(path(&format!("volumes/{turn}"))).unwrap();
    }
    volumes.sync_all().unwrap();
    measure_floor("delete a used directory", 1000, |turn| {
        write_catalog(&file, turn);
        std::fs::remove_dir(path(&format!("volumes/{turn}"))).unwrap();
        volumes.sync_all().unwrap();
    });
    std::fs::create_dir(path("volumes/used")).unwrap();
    std::fs::create_dir(path("staging")).unwrap();
    for (what, is_durable) in
        [("stage to unstage, with its syncs", true), ("stage to unstage, without syncs", false)]
    {
        let record = |turn| {
            if is_durable {
                write_catalog(&file, turn);
            }
        };
        measure_floor(what, 500, |turn| {
            record(turn);
            mount_bind(path("volumes/used"), path("staging")).unwrap();
            record(turn + 1);
            std::fs::create_dir(path("target")).unwrap();
            mount_bind(path("staging"), path("target")).unwrap();
            unmount(path("target"), UnmountFlags::NOFOLLOW).unwrap();
            std::fs::remove_dir(path("target")).unwrap();
            record(turn + 2);
            unmount(path("staging"), UnmountFlags::NOFOLLOW).unwrap();
            record(turn + 3);
        });
    }
}

async fn lists() {
    let mut plugin = Plugin::start().await;
    for thousand in 0..10 {
        measure(
            &mut plugin,
            &format!("creates {thousand},001 to {},000", thousand + 1),
            async |client| {
                let callers = (0..8).map(|caller| {
                    let mut client = client.clone();
                    tokio::spawn(async move {
                        for number in (caller..1000).step_by(8) {
                            client
                                .try_create(directory(&format!("{thousand} {number}")))
                                .await
                                .unwrap();
                        }
                    })
                });
                for caller in callers.collect::<Vec<_>>() {
                    caller.await.unwrap();
                }
            },
        )
        .await;
    }
    measure(&mut plugin, "10,000 volumes listed", async |client| {
        let mut token = String::new();
        let mut count = 0;
        loop {
            let (page, next) = client.list(0, &token).await.unwrap();
            count += page.len();
            token = next;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(count, 10_000);
    })
    .await;
}

async fn copies() {
    let mut plugin = Plugin::start().await;
    let id = plugin.running.client.try_create(sized("a", 1536 * MIB)).await.unwrap();
    let (staging, target) = (plugin.path("staging"), plugin.path("target"));
    std::fs::create_dir(&staging).unwrap();
    let capability = mount(Mode::SingleNodeWriter, &[]);
    plugin.running.client.stage(&id, &staging, capability.clone()).await.unwrap();
    let publish =
        Publish { id: &id, staging: &staging, target: &target, capability, read_only: false };
    plugin.running.client.publish(publish).await.unwrap();
    let mut file = std::fs::File::create(target.join("file")).unwrap();
    let chunk: Vec<u8> = (0..=250).cycle().take(1 << 20).collect();
    for _ in 0..1024 {
        std::io::Write::write_all(&mut file, &chunk).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    measure(&mut plugin, "snapshot of 1 GiB, mounted", async |client| {
        client.snapshot("s", &id).await.unwrap();
    })
    .await;
    measure(&mut plugin, "clone of 1 GiB, mounted", async |client| {
        let request =
            proto::CreateVolumeRequest { volume_content_source: clone_of(&id), ..named("clone") };
        client.try_create(request).await.unwrap();
    })
    .await;
    plugin.running.client.unpublish(&id, &target).await.unwrap();
    plugin.running.client.unstage(&id, &staging).await.unwrap();
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let selected: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_selected = |part: &str| selected.is_empty() || selected.iter().any(|word| word == part);
    runtime.block_on(async {
        if is_selected("floor") {
            floor();
        }
        if is_selected("rates") {
            rates().await;
        }
        if is_selected("lists") {
            lists().await;
        }
        if is_selected("copies") {
            copies().await;
        }
    });
}
