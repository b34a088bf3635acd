//! The embedded plugin as a separate process: wall time, CPU time of the plugin, and its memory.
//!
//! Run `cargo bench --bench plugin`, as root for images and devices. `NOMAD_CSI_BENCH_DIR` sets the
//! directory of the state, to measure another file system, such as one with reflinks. Words after
//! `--` select parts (`volumes`, `lists`, `copies`).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failing benchmark must stop with a message"
)]

use std::path::{Path, PathBuf};
use std::time::Instant;

use nomad_csi::csi::proto;
use nomad_csi::csi::proto::volume_capability::access_mode::Mode;

#[path = "../tests/support/plugin_client.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod plugin_client;
#[path = "../tests/support/plugin_process.rs"]
mod plugin_process;
#[path = "../tests/support/wait.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod wait;

use plugin_client::{Client, Publish, clone_of, mount, named, sized};
use plugin_process::PluginProcess;

const MIB: i64 = 1 << 20;
/// The clock ticks per second of the kernel's CPU times.
const TICKS: f64 = 100.0;

struct Plugin {
    running: PluginProcess,
    directory: tempfile::TempDir,
}

impl Plugin {
    async fn start() -> Self {
        let base =
            std::env::var_os("NOMAD_CSI_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let directory = tempfile::tempdir_in(base).unwrap();
        let running = PluginProcess::start(directory.path(), &["--overcommit"]).await;
        Self { running, directory }
    }

    fn about(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.running.process.id())).unwrap()
    }

    /// Returns user and system time, including child processes.
    fn cpu(&self) -> f64 {
        let stat = self.about("stat");
        let after_name = stat.rsplit(')').next().unwrap().split_whitespace();
        let ticks: u32 = after_name
            .skip(11)
            .take(4)
            .map(|ticks| ticks.parse::<u32>().unwrap())
            .sum();
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

async fn lives(client: &mut Client, ids: &[String], staging: &Path, target: &Path) {
    let capability = mount(Mode::SingleNodeWriter, &[]);
    for id in ids {
        client.stage(id, staging, capability.clone()).await.unwrap();
        let publish = Publish {
            id,
            staging,
            target,
            capability: capability.clone(),
            read_only: false,
        };
        client.publish(publish).await.unwrap();
        client.unpublish(id, target).await.unwrap();
        client.unstage(id, staging).await.unwrap();
    }
}

async fn volumes() {
    let mut plugin = Plugin::start().await;
    let staging = plugin.path("staging");
    let target = plugin.path("target");
    std::fs::create_dir(&staging).unwrap();
    for (what, is_image) in [("directory", false), ("image of 64 MiB", true)] {
        let mut ids = vec![];
        measure(
            &mut plugin,
            &format!("1,000 creates, {what}"),
            async |client| {
                for number in 0..1000 {
                    let name = format!("{what} {number}");
                    let request = if is_image {
                        sized(&name, 64 * MIB)
                    } else {
                        directory(&name)
                    };
                    ids.push(client.try_create(request).await.unwrap());
                }
            },
        )
        .await;
        let label = format!("1,000 x stage, publish, unpublish, unstage, {what}");
        measure(&mut plugin, &label, async |client| {
            lives(client, &ids, &staging, &target).await;
        })
        .await;
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
    let id = plugin
        .running
        .client
        .try_create(sized("a", 1536 * MIB))
        .await
        .unwrap();
    let (staging, target) = (plugin.path("staging"), plugin.path("target"));
    std::fs::create_dir(&staging).unwrap();
    let capability = mount(Mode::SingleNodeWriter, &[]);
    plugin
        .running
        .client
        .stage(&id, &staging, capability.clone())
        .await
        .unwrap();
    let publish = Publish {
        id: &id,
        staging: &staging,
        target: &target,
        capability,
        read_only: false,
    };
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
        let request = proto::CreateVolumeRequest {
            volume_content_source: clone_of(&id),
            ..named("clone")
        };
        client.try_create(request).await.unwrap();
    })
    .await;
    plugin.running.client.unpublish(&id, &target).await.unwrap();
    plugin.running.client.unstage(&id, &staging).await.unwrap();
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let selected: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let is_selected = |part: &str| selected.is_empty() || selected.iter().any(|word| word == part);
    runtime.block_on(async {
        if is_selected("volumes") {
            volumes().await;
        }
        if is_selected("lists") {
            lists().await;
        }
        if is_selected("copies") {
            copies().await;
        }
    });
}
