//! Clients that claim, use and release volumes over HTTP while processes die, and what each of them was
//! promised, also where mounts vanish.
//!
//! A client whose request was interrupted repeats it, as a real client does. A claim that was answered
//! with a target path is held until its client releases it: the claim is on record, its path is mounted,
//! and the data that the client wrote is there. A volume for one writer has one holder at any time. A client
//! whose target vanished asks for it again, as a task that is restarted does, and finds its data.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use nomad_csi_node::mounts::LinuxBlockStorage;
use nomad_csi_ports::BlockStorage as _;
use rustix::mount::UnmountFlags;
use serde_json::{Value, json};

use crate::http::Address;
use crate::random::Random;
use crate::wait::until;
use nomad_csi_testing::namespace::mounts;

/// How many claims a client holds at most.
const HELD: usize = 2;

/// A volume of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Volume {
    id: &'static str,
    has_one_writer: bool,
    /// An image on a loop device; otherwise a directory.
    is_image: bool,
}

const fn volume(id: &'static str, has_one_writer: bool, is_image: bool) -> Volume {
    Volume { id, has_one_writer, is_image }
}

const VOLUMES: [Volume; 6] = [
    volume("one-1", true, false),
    volume("one-2", true, false),
    volume("one-3", true, false),
    volume("many", false, false),
    volume("image-1", true, true),
    volume("image-many", false, true),
];

impl Volume {
    fn create(self, agent: &Address) {
        let mode = match self.has_one_writer {
            true => "single-node-writer",
            false => "multi-node-multi-writer",
        };
        let mut document = json!({
            "ID": self.id,
            "Name": self.id,
            "PluginID": "hostpath",
            "RequestedCapabilities": [{"AccessMode": mode, "AttachmentMode": "file-system"}],
        });
        if self.is_image {
            document["RequestedCapacityMin"] = json!(16 << 20);
        }
        let path = format!("/v1/volume/csi/{}/create", self.id);
        let body = json!({ "Volumes": [document] });
        agent.ask("PUT", &path, Some(&body)).unwrap().json();
    }

    fn delete(self, agent: &Address) {
        let path = format!("/v1/volume/csi/{}/delete", self.id);
        let answer = agent.ask("DELETE", &path, None).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// Who holds each volume, over all clients.
#[derive(Default)]
struct Holders(Mutex<BTreeMap<Volume, BTreeSet<String>>>);

impl Holders {
    fn add(&self, volume: Volume, alloc: &str) {
        let mut holders = self.0.lock().unwrap();
        let holders = holders.entry(volume).or_default();
        holders.insert(alloc.to_owned());
        assert!(
            !volume.has_one_writer || holders.len() == 1,
            "{} has two writers: {holders:?}",
            volume.id
        );
    }

    /// Called before the release is sent, because another client may get the volume before the answer.
    fn remove(&self, volume: Volume, alloc: &str) {
        let mut holders = self.0.lock().unwrap();
        holders.entry(volume).or_default().remove(alloc);
    }
}

/// The knowledge of a client about its claim.
enum Knowledge {
    Requested,
    Held(PathBuf),
    /// It was held, and its target vanished.
    Lost,
    Releasing,
}

struct Claim {
    volume: Volume,
    alloc: String,
    knowledge: Knowledge,
}

impl Claim {
    /// The file that the client writes.
    fn file(&self, target: &Path) -> PathBuf {
        match self.volume.has_one_writer {
            true => target.join("writer"),
            false => target.join(&self.alloc),
        }
    }

    /// The path is mounted, and no one else wrote the data.
    fn check_data(&self, target: &Path) {
        let path = target.display();
        assert!(is_mounted(target), "{path} of {} is not mounted", self.alloc);
        let found = std::fs::read_to_string(self.file(target)).unwrap();
        assert_eq!(found, self.alloc, "{path}");
    }
}

fn is_mounted(target: &Path) -> bool {
    mounts().iter().any(|mounted| Path::new(mounted) == target)
}

/// The mounts that vanished and that no client got back. A client holds the lock while it looks at a target, so that
/// none vanishes between two looks.
type Lost = Mutex<BTreeSet<PathBuf>>;

/// The state that all clients share.
#[derive(Default)]
struct Shared {
    holders: Holders,
    lost: Lost,
}

struct Client {
    name: String,
    number: usize,
    random: Random,
    claims: Vec<Claim>,
}

fn failed(answer: &crate::http::Answer) -> io::Error {
    io::Error::other(format!("{}: {}", answer.status, answer.text()))
}

impl Client {
    /// Does one request. Fails if its outcome is unknown; then the next request repeats it.
    fn act(&mut self, agent: &Address, shared: &Shared) -> io::Result<()> {
        self.notice_losses(&shared.lost);
        let is_open = |claim: &Claim| !matches!(claim.knowledge, Knowledge::Held(_));
        if let Some(at) = self.claims.iter().position(is_open) {
            return self.request(at, agent, shared);
        }
        let is_release = self.claims.len() == HELD || self.random.below(2) == 0;
        if is_release && !self.claims.is_empty() {
            self.give_back(0, shared);
            return self.request(0, agent, shared);
        }
        self.number += 1;
        self.claims.push(Claim {
            volume: self.random.pick(&VOLUMES),
            alloc: format!("{}-{}", self.name, self.number),
            knowledge: Knowledge::Requested,
        });
        self.request(self.claims.len() - 1, agent, shared)
    }

    fn notice_losses(&mut self, lost: &Lost) {
        let lost = lost.lock().unwrap();
        for claim in &mut self.claims {
            if matches!(&claim.knowledge, Knowledge::Held(target) if lost.contains(target)) {
                claim.knowledge = Knowledge::Lost;
            }
        }
    }

    /// Gives a held claim back; one whose target vanished at this moment is asked for again first.
    fn give_back(&mut self, at: usize, shared: &Shared) {
        let lost = shared.lost.lock().unwrap();
        let claim = &mut self.claims[at];
        if let Knowledge::Held(target) = &claim.knowledge {
            claim.knowledge = if lost.contains(target) {
                Knowledge::Lost
            } else {
                claim.check_data(target);
                shared.holders.remove(claim.volume, &claim.alloc);
                Knowledge::Releasing
            };
        }
    }

    fn request(&mut self, at: usize, agent: &Address, shared: &Shared) -> io::Result<()> {
        let claim = &mut self.claims[at];
        let path = format!("/v1/volume/csi/{}/claim", claim.volume.id);
        match claim.knowledge {
            Knowledge::Held(_) => return Ok(()),
            Knowledge::Requested | Knowledge::Lost => {
                let was_held = matches!(claim.knowledge, Knowledge::Lost);
                let body = json!({"AllocID": claim.alloc, "Alias": "data", "Wait": "5s"});
                let answer = agent.ask("PUT", &path, Some(&body))?;
                match answer.status {
                    200 => {
                        let answer = answer.json();
                        let target = PathBuf::from(answer["TargetPath"].as_str().unwrap());
                        shared.holders.add(claim.volume, &claim.alloc);
                        let mut lost = shared.lost.lock().unwrap();
                        if lost.contains(&target) && !is_mounted(&target) {
                            // The agent has not noticed yet.
                            return Ok(());
                        }
                        lost.remove(&target);
                        if !was_held {
                            std::fs::write(claim.file(&target), &claim.alloc).unwrap();
                        }
                        claim.check_data(&target);
                        claim.knowledge = Knowledge::Held(target);
                    }
                    202 => {}
                    400..500 if was_held => {
                        panic!("{} is lost: {}", claim.alloc, answer.text());
                    }
                    400..500 => drop(self.claims.remove(at)),
                    _ => return Err(failed(&answer)),
                }
            }
            Knowledge::Releasing => {
                let path = format!("{path}?alloc={}&wait=5s", claim.alloc);
                let answer = agent.ask("DELETE", &path, None)?;
                match answer.status {
                    // It is gone, or was gone already.
                    200 | 404 | 409 => drop(self.claims.remove(at)),
                    202 => {}
                    _ => return Err(failed(&answer)),
                }
            }
        }
        Ok(())
    }

    fn check(&self, agent: &Address) {
        for claim in &self.claims {
            if let Knowledge::Held(target) = &claim.knowledge {
                let recorded = claims_of(agent, claim.volume);
                let is_own = |recorded: &&Value| recorded["AllocID"] == *claim.alloc;
                let own = recorded.iter().find(is_own);
                let own = own.unwrap_or_else(|| panic!("{} is lost: {recorded:?}", claim.alloc));
                assert_eq!(own["State"], "published", "{own}");
                claim.check_data(target);
            }
        }
    }
}

fn claims_of(agent: &Address, volume: Volume) -> Vec<Value> {
    let path = format!("/v1/volume/csi/{}/claims", volume.id);
    let answer = agent.ask("GET", &path, None).unwrap().json();
    answer.as_array().unwrap().clone()
}

/// All clients.
pub(crate) struct Load {
    clients: Vec<Client>,
    shared: Shared,
    random: Random,
}

/// Stops the clients when it is dropped.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Load {
    pub(crate) fn new(clients: u64) -> Self {
        let client = |at| Client {
            name: format!("client-{at}"),
            number: 0,
            random: Random(at),
            claims: vec![],
        };
        Self {
            clients: (0..clients).map(client).collect(),
            shared: Shared::default(),
            random: Random(clients),
        }
    }

    pub(crate) fn create_volumes(&self, agent: &Address) {
        for volume in VOLUMES {
            volume.create(agent);
        }
    }

    pub(crate) fn delete_volumes(&self, agent: &Address) {
        for volume in VOLUMES {
            volume.delete(agent);
        }
    }

    /// Runs the clients until `act` has returned or panicked. It gets the number of their requests so far, and what
    /// lets mounts vanish.
    pub(crate) fn run_while(
        &mut self,
        agent: &Address,
        act: impl FnOnce(&AtomicUsize, &mut Losses<'_>),
    ) {
        let (stop, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
        let shared = &self.shared;
        thread::scope(|scope| {
            for client in &mut self.clients {
                let (stop, requests) = (&stop, &requests);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) && client.act(agent, shared).is_ok() {
                        requests.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            // Also after a panic, which the clients would outlast.
            let _stop = StopAtEnd(&stop);
            let (lost, random) = (&shared.lost, &mut self.random);
            act(&requests, &mut Losses { lost, random });
        });
    }

    /// No claim is lost, and no volume for one writer is claimed twice.
    pub(crate) fn check(&mut self, agent: &Address) {
        for volume in VOLUMES {
            let claims = claims_of(agent, volume);
            assert!(!volume.has_one_writer || claims.len() < 2, "{claims:?}");
        }
        for client in &mut self.clients {
            client.notice_losses(&self.shared.lost);
            client.check(agent);
        }
    }

    /// Returns how many claims are held.
    pub(crate) fn held(&self) -> usize {
        let claims = self.clients.iter().flat_map(|client| &client.claims);
        let held = claims.filter(|claim| matches!(claim.knowledge, Knowledge::Held(_)));
        held.count()
    }

    /// Releases every claim, and checks that nothing is left on this machine and on record.
    pub(crate) fn release_all(&mut self, agent: &Address, data: &Path) {
        for client in &mut self.clients {
            until("the claims of a client to be released", || {
                while let Some(last) = client.claims.len().checked_sub(1) {
                    client.give_back(last, &self.shared);
                    let requested = client.request(last, agent, &self.shared);
                    requested.map_err(|error| error.to_string())?;
                }
                Ok(())
            });
        }
        until("all claims to be gone", || {
            let answer = agent.ask("GET", "/v1/volumes/claims?type=csi&namespace=*", None);
            match answer.unwrap().json() {
                Value::Array(left) if left.is_empty() => Ok(()),
                left => Err(left.to_string()),
            }
        });
        assert_nothing_mounted(data);
    }
}

/// The two kinds of mounts of a volume.
pub(crate) const MOUNTS: [&str; 2] = ["/targets/", "/staging/"];

/// Lets mounts of volumes vanish.
pub(crate) struct Losses<'a> {
    lost: &'a Lost,
    random: &'a mut Random,
}

impl Losses<'_> {
    /// Unmounts one of an agent's mounts of this kind, as the end of a FUSE process or a person does. Returns whether
    /// there was any.
    pub(crate) fn lose_mount(&mut self, data: &Path, kind: &str) -> bool {
        let mut lost = self.lost.lock().unwrap();
        let is_own = |path: &PathBuf| {
            path.starts_with(data.join("mounts")) && path.to_string_lossy().contains(kind)
        };
        let all = mounts().into_iter().map(PathBuf::from);
        let mut own: Vec<_> = all.filter(is_own).collect();
        if own.is_empty() {
            return false;
        }
        let number = u64::try_from(own.len()).unwrap();
        let at = usize::try_from(self.random.below(number)).unwrap();
        let path = own.swap_remove(at);
        rustix::mount::unmount(&path, UnmountFlags::DETACH).unwrap();
        lost.insert(path);
        true
    }
}

/// No mount, no loop device and no file beside a mount point.
fn assert_nothing_mounted(data: &Path) {
    let below = |mounted: &String| Path::new(mounted).starts_with(data);
    let left: Vec<String> = mounts().into_iter().filter(below).collect();
    assert!(left.is_empty(), "{left:?}");
    let left = files_below(&data.join("mounts/hostpath"));
    assert!(left.is_empty(), "{left:?}");
    until("the devices to be detached", || {
        let left = LinuxBlockStorage::default().attached(data).unwrap();
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("{left:?}")),
        }
    });
}

/// Returns everything below a directory, without what is mounted there.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let with_content = |path: PathBuf| match path.is_dir() {
        true => [vec![path.clone()], files_below(&path)].concat(),
        false => vec![path],
    };
    paths.flat_map(with_content).collect()
}
