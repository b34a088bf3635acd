//! A full disk below the agent's directory: the error has help, acknowledged changes survive, and the
//! agent works again once space is free.

use std::path::{Path, PathBuf};
use std::process::Output;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::agent_process::{AgentProcess, processes_with, program};
use crate::http::Address;
use crate::volumes::{create, list};
use nomad_csi_testing::namespace::run_in_mount_namespace;

/// More registrations than the free space of the database file holds.
const ENOUGH: usize = 500;

/// A small disk and a directory beside it.
struct Disk {
    base: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        let disk = Self { base: tempfile::tempdir().unwrap() };
        std::fs::create_dir(disk.data()).unwrap();
        let size = c"size=12m,mode=700";
        mount("none", disk.data(), "tmpfs", MountFlags::empty(), size).unwrap();
        disk
    }

    fn data(&self) -> PathBuf {
        self.base.path().join("data")
    }

    fn filler(&self) -> PathBuf {
        self.data().join("filler")
    }

    /// Fills the disk completely.
    fn fill(&self) {
        let mut options = std::fs::File::options();
        let mut filler = options.create(true).append(true).open(self.filler()).unwrap();
        let full = std::io::copy(&mut std::io::repeat(0), &mut filler);
        assert_eq!(full.unwrap_err().kind(), std::io::ErrorKind::StorageFull, "the disk is full");
    }

    fn free_space(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }

    fn plugins(&self) -> Vec<u32> {
        processes_with(&["plugin", "serve", &self.data().to_string_lossy()])
    }

    /// Registers the external volume under another ID with the command line.
    fn register(&self, agent: &Address, id: &str, external_id: &str) -> Output {
        let path = self.base.path().join("volume.hcl");
        let text = format!(
            "id = \"{id}\"\ntype = \"csi\"\nname = \"{id}\"\nplugin_id = \"hostpath\"\nexternal_id = \"{external_id}\"\n\
             capability {{\n  access_mode = \"single-node-writer\"\n  attachment_mode = \"file-system\"\n}}\n"
        );
        std::fs::write(&path, text).unwrap();
        let address = agent.tcp();
        program(["volume", "register", "--address"])
            .arg(format!("http://{address}"))
            .arg("-f")
            .arg(path)
            .args(["--share", id])
            .output()
            .unwrap()
    }

    /// Registers volumes until one is refused, and adds the others to `registered`. Returns the error.
    fn register_until_refused(
        &self,
        agent: &Address,
        external_id: &str,
        registered: &mut Vec<String>,
    ) -> String {
        for number in 0..ENOUGH {
            let id = format!("r{number}");
            let ended = self.register(agent, &id, external_id);
            if !ended.status.success() {
                assert_eq!(ended.status.code(), Some(1));
                return String::from_utf8(ended.stderr).unwrap();
            }
            registered.push(id);
        }
        panic!("{ENOUGH} registrations fit on a full disk");
    }
}

fn sorted(ids: &[String]) -> Vec<String> {
    let mut sorted = ids.to_vec();
    sorted.sort();
    sorted
}

fn ids(agent: &Address) -> Vec<String> {
    let ids: Vec<String> = list(agent).into_iter().map(|(id, _)| id).collect();
    sorted(&ids)
}

fn started_on(data: &Path) -> std::process::Command {
    let mut command = program(["agent", "--dev", "--http", "127.0.0.1:0", "--data-dir"]);
    command.arg(data);
    command
}

#[test]
fn a_full_disk_loses_no_volume_and_recovers_when_space_is_free() {
    run_in_mount_namespace(
        "agent_disk::a_full_disk_loses_no_volume_and_recovers_when_space_is_free",
        || {
            let disk = Disk::new();
            let agent = AgentProcess::start(&disk.data());
            create(&agent.address, "before").unwrap().json();
            let external_id = list(&agent.address)[0].1.clone();
            disk.fill();

            let mut expected = vec!["before".to_owned()];
            let stderr = disk.register_until_refused(&agent.address, &external_id, &mut expected);
            for part in ["error[journal/disk-full]", "volume r", "free space on"] {
                assert!(stderr.contains(part), "{part}: {stderr}");
            }
            assert_eq!(ids(&agent.address), sorted(&expected), "acknowledged registrations");

            disk.free_space();
            let written = disk.register(&agent.address, "with-room", &external_id);
            assert!(written.status.success(), "{written:?}");
            create(&agent.address, "after").unwrap().json();
            expected.extend(["after".to_owned(), "with-room".to_owned()]);
            agent.kill();
            let agent = AgentProcess::start(&disk.data());
            assert_eq!(ids(&agent.address), sorted(&expected), "the same after a kill");
            assert!(agent.stop().success());
            assert_eq!(disk.plugins(), Vec::<u32>::new());
            unmount(disk.data(), UnmountFlags::NOFOLLOW).unwrap();
        },
    );
}

/// Growth is refused, and what gives something back is recorded with the space that was kept.
#[test]
fn a_full_disk_stops_no_release() {
    run_in_mount_namespace("agent_disk::a_full_disk_stops_no_release", || {
        let disk = Disk::new();
        let agent = AgentProcess::start(&disk.data());
        create(&agent.address, "before").unwrap().json();
        let external_id = list(&agent.address)[0].1.clone();
        let mut registered = vec![];
        for number in 0..20 {
            let id = format!("early{number}");
            assert!(disk.register(&agent.address, &id, &external_id).status.success());
            registered.push(id);
        }
        let reserve = disk.data().join("journal.redb.reserve");
        assert!(reserve.metadata().unwrap().len() > 0, "space is kept");
        disk.fill();
        disk.register_until_refused(&agent.address, &external_id, &mut registered);
        for id in &registered {
            let path = format!("/v1/volume/csi/{id}");
            let answer = agent.address.ask("DELETE", &path, None).unwrap();
            assert_eq!(answer.status, 200, "{id}: {}", answer.text());
        }
        assert_eq!(ids(&agent.address), ["before"]);
        let refused = disk.register(&agent.address, "late", &external_id);
        assert_eq!(refused.status.code(), Some(1));
        disk.free_space();
        assert!(disk.register(&agent.address, "with-room", &external_id).status.success());
        assert!(reserve.exists(), "space is kept again");
        assert!(agent.stop().success());
        unmount(disk.data(), UnmountFlags::NOFOLLOW).unwrap();
    });
}

#[test]
fn an_agent_reports_that_it_cannot_start_on_a_full_disk() {
    run_in_mount_namespace(
        "agent_disk::an_agent_reports_that_it_cannot_start_on_a_full_disk",
        || {
            let disk = Disk::new();
            let agent = AgentProcess::start(&disk.data());
            create(&agent.address, "before").unwrap().json();
            assert!(agent.stop().success());
            disk.fill();

            let refused = started_on(&disk.data()).output().unwrap();
            let stderr = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(1), "{stderr}");
            for part in ["error[data/unavailable]", "agent.lock", "free space on"] {
                assert!(stderr.contains(part), "{part}: {stderr}");
            }
            assert_eq!(disk.plugins(), Vec::<u32>::new());

            disk.free_space();
            let agent = AgentProcess::start(&disk.data());
            assert_eq!(ids(&agent.address), ["before"]);
            create(&agent.address, "after").unwrap().json();
            assert!(agent.stop().success());
            unmount(disk.data(), UnmountFlags::NOFOLLOW).unwrap();
        },
    );
}
