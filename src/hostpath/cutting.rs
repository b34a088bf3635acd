//! Cutting: a copy of a volume as it is at one moment.
//!
//! What nobody uses is at rest. A mounted image is frozen while it is copied. A block device in use
//! cannot be frozen; it is cut only where a copy shares blocks, which is one moment, and only alone.
//! A directory in use cannot be cut at all. What cannot be cut is refused with FAILED_PRECONDITION
//! rather than copied torn.
//!
//! A file system that this plugin froze is thawed whatever happens: by [`Frozen::thaw`], and after a
//! crash by `recovery`, which finds the unfinished record that was written before.

use std::path::PathBuf;

use super::catalog::{Backing, Content};
use super::error::{Machine, Unfit};
use super::volume::Volume;

/// A volume that is to be cut, and how it is now.
pub(super) struct Cut {
    pub(super) volume: Volume,
    /// Where it is mounted, if it is.
    mount: Option<PathBuf>,
    /// The devices over it, if it is a block volume.
    devices: Vec<PathBuf>,
    /// Whether a copy shares blocks.
    is_shared: bool,
}

/// Volumes could not be cut.
pub(super) struct NotCut {
    pub(super) error: Machine,
    /// A file system may still be frozen: the record of the cut has to stay, so that the next start
    /// lets it go on.
    pub(super) is_frozen: bool,
}

/// Volumes at rest.
pub(super) struct Frozen {
    plugin: std::sync::Arc<super::plugin::Plugin>,
    mounts: Vec<PathBuf>,
}

impl Cut {
    /// Looks at a volume on which an operation was begun.
    pub(super) async fn look(volume: Volume) -> Result<Self, Machine> {
        let mount = volume.first_mount().await?.map(|entry| entry.target);
        let devices = match volume.backing() {
            Backing::Block => volume.devices().await?,
            Backing::Directory | Backing::Image => vec![],
        };
        let directory = volume.plugin.images.path().to_owned();
        let is_shared = volume
            .plugin
            .files("look at the file system", move |plugin| {
                Ok(plugin.host.storage.shares_blocks(&directory))
            })
            .await?;
        let writable = devices.into_iter().filter(|device| !device.read_only);
        Ok(Self {
            devices: writable.map(|device| device.path).collect(),
            volume,
            mount,
            is_shared,
        })
    }

    /// What is cut.
    pub(super) fn content(&self) -> Content {
        self.volume.record.content
    }

    /// Where it is.
    pub(super) fn data(&self) -> PathBuf {
        self.volume.data.clone()
    }

    /// Whether it can be cut at one moment, together with others (`together` counts it too).
    pub(super) fn is_possible(&self, together: usize) -> Result<(), Unfit> {
        let id = self.volume.id();
        match self.volume.backing() {
            Backing::Image => Ok(()),
            Backing::Directory if self.mount.is_none() => Ok(()),
            Backing::Directory => Err(Unfit(format!(
                "volume {id} is a directory in use, which cannot be brought to rest: unpublish and unstage it first"
            ))),
            Backing::Block if self.devices.is_empty() => Ok(()),
            Backing::Block if self.is_shared && together == 1 => Ok(()),
            Backing::Block => Err(Unfit(format!(
                "volume {id} is a block device in use, which cannot be brought to rest: unpublish and unstage it first"
            ))),
        }
    }

    /// Brings it to rest.
    pub(super) async fn freeze(&self) -> Result<Frozen, NotCut> {
        freeze_all(std::slice::from_ref(self)).await
    }
}

/// Brings several to rest, so that there is a moment at which all of them are. Those that were
/// brought to rest go on if one cannot be.
pub(super) async fn freeze_all(cuts: &[Cut]) -> Result<Frozen, NotCut> {
    let Some(first) = cuts.first() else {
        let nothing = std::io::ErrorKind::InvalidInput.into();
        return Err(NotCut {
            error: Machine::files("cut nothing")(nothing),
            is_frozen: false,
        });
    };
    let mut frozen = Frozen {
        plugin: first.volume.plugin.clone(),
        mounts: vec![],
    };
    for cut in cuts {
        if let Err(error) = frozen.add(cut).await {
            let is_frozen = frozen.thaw().await.is_err();
            return Err(NotCut { error, is_frozen });
        }
    }
    Ok(frozen)
}

impl Frozen {
    async fn add(&mut self, cut: &Cut) -> Result<(), Machine> {
        let (devices, is_image) = (cut.devices.clone(), cut.volume.backing() == Backing::Image);
        let mount = cut.mount.clone().filter(|_| is_image);
        let frozen = mount.clone();
        self.plugin
            .files(
                format!("bring volume {} to rest", cut.volume.id()),
                move |plugin| {
                    let storage = &plugin.host.storage;
                    for device in devices {
                        storage.flush(&device)?;
                    }
                    match mount {
                        Some(mount) => storage.freeze(&mount),
                        None => Ok(()),
                    }
                },
            )
            .await?;
        self.mounts.extend(frozen);
        Ok(())
    }

    /// Lets all of them go on.
    pub(super) async fn thaw(mut self) -> Result<(), Machine> {
        let mounts = std::mem::take(&mut self.mounts);
        self.plugin
            .files("let a file system go on", move |plugin| {
                let mut result = Ok(());
                for mount in mounts {
                    let thawed = plugin.host.storage.thaw(&mount);
                    result = result.and(thawed);
                }
                result
            })
            .await
    }
}

impl Drop for Frozen {
    /// Work that is given up (a stop of the plugin that waits no longer, a panic) leaves no workload
    /// waiting for the next start. One short call to the kernel, where nothing can be awaited.
    fn drop(&mut self) {
        for mount in std::mem::take(&mut self.mounts) {
            if let Err(error) = self.plugin.host.storage.thaw(&mount) {
                tracing::error!(mount = %mount.display(), %error, "a file system stays frozen");
            }
        }
    }
}
