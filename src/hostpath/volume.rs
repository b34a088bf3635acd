//! One volume during one call about its mounts: what is on record of it, and what is mounted.
//!
//! A staging is a bind mount of the volume's directory, a target a bind mount of the staging; what
//! each was made for is in the catalogue, whether it is there in the mount table. The record is
//! written before the mount and removed after it. So every mount of the plugin's own is on record,
//! what is not on record is somebody else's and stays untouched, and a record without a mount (a
//! crash, a reboot) means only that it has to be made again. Nothing here is recursive.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::catalog::PlaceRecord;
use super::error::{Machine, NoVolume, Pending, Unfit};
use super::place::Place;
use super::plugin::{Operation, Plugin, Subject};
use crate::ports::MountFlags;

/// What is mounted at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Nothing.
    Nothing,
    /// This volume, by this plugin, with these flags.
    Volume(MountFlags),
    /// Something else, or this volume by somebody else.
    Other,
}

/// A volume that exists.
pub(super) struct Volume {
    pub(super) plugin: Arc<Plugin>,
    pub(super) id: String,
    /// Its directory.
    pub(super) data: PathBuf,
    /// What is on record of its paths.
    pub(super) places: BTreeMap<String, PlaceRecord>,
    _operation: Option<Operation>,
}

impl Volume {
    /// Begins an operation on a volume; until its end no other can begin.
    pub(super) async fn open<E>(plugin: &Arc<Plugin>, id: String) -> Result<Self, E>
    where
        E: From<Machine> + From<NoVolume> + From<Pending> + Send + 'static,
    {
        let operation = plugin.begin(Subject::Volume(id.clone()))?;
        let volume = Self::look::<E>(plugin, id).await?;
        Ok(Self {
            _operation: Some(operation),
            ..volume
        })
    }

    /// Looks at a volume, whatever is under way about it.
    pub(super) async fn look<E>(plugin: &Arc<Plugin>, id: String) -> Result<Self, E>
    where
        E: From<Machine> + From<NoVolume> + Send + 'static,
    {
        let known = id.clone();
        let places = plugin.blocking(move |plugin| {
            plugin.ready(&known)?.ok_or(NoVolume(known.clone()))?;
            let places = plugin.catalog.places(&known).map_err(Machine::from)?;
            Ok::<_, E>(places)
        });
        Ok(Self {
            places: places.await?,
            plugin: plugin.clone(),
            data: plugin.data.path_of(&id),
            id,
            _operation: None,
        })
    }

    /// What is mounted at `path` now.
    pub(super) async fn at(&self, path: &str) -> Result<At, Machine> {
        let mounter = &self.plugin.mounter;
        let Some(entry) = mounter.entry(Path::new(path)).await? else {
            return Ok(At::Nothing);
        };
        let mounts = mounter.list().await?;
        let place = Place::of(&self.data, &mounts);
        let is_shown = place.is_some_and(|place| place.is_shown_by(&entry));
        Ok(if is_shown && self.places.contains_key(path) {
            At::Volume(entry.flags)
        } else {
            At::Other
        })
    }

    /// Records what `path` is for.
    pub(super) async fn remember(&self, path: &str, record: PlaceRecord) -> Result<(), Machine> {
        let (id, path) = (self.id.clone(), path.to_owned());
        self.plugin
            .blocking(move |plugin| Ok(plugin.catalog.put_place(&id, &path, &record)?))
            .await
    }

    /// Removes the record of `path`.
    pub(super) async fn forget(&self, path: &str) -> Result<(), Machine> {
        let (id, path) = (self.id.clone(), path.to_owned());
        self.plugin
            .blocking(move |plugin| Ok(plugin.catalog.forget_place(&id, &path)?))
            .await
    }

    /// Binds `source` at `path`, for which a record stands. `found`, this volume with other flags
    /// (left by a crash between the two calls of a bind), is replaced.
    pub(super) async fn mount(
        &self,
        source: &Path,
        path: &str,
        flags: MountFlags,
        found: At,
    ) -> Result<(), Machine> {
        let target = Path::new(path);
        if let At::Volume(_) = found {
            self.plugin.mounter.unmount(target).await?;
        }
        Ok(self.plugin.mounter.bind(source, target, flags).await?)
    }

    /// Unmounts this volume from `path`, for which a record stands, as often as it is mounted there.
    /// What is mounted there otherwise is an error.
    pub(super) async fn unmount<E>(&self, path: &str) -> Result<(), E>
    where
        E: From<Machine> + From<Unfit>,
    {
        loop {
            match self.at(path).await? {
                At::Nothing => return Ok(()),
                At::Other => return Err(foreign(path).into()),
                At::Volume(_) => {
                    let unmounted = self.plugin.mounter.unmount(Path::new(path)).await;
                    unmounted.map_err(Machine::from)?;
                }
            }
        }
    }

    /// The plugin's own directory is no place to mount on.
    pub(super) fn is_outside_of_volumes(&self, path: &str) -> Result<(), Unfit> {
        if Path::new(path).starts_with(self.plugin.data.path()) {
            return Err(Unfit(format!("{path} lies among the plugin's own volumes")));
        }
        Ok(())
    }
}

/// Whether a mount forbids at least what is wanted, and is read-only just if it is wanted.
pub(super) fn fits(found: MountFlags, wanted: MountFlags) -> bool {
    found.and(wanted) == found && found.read_only == wanted.read_only
}

/// The path is taken.
pub(super) fn foreign(path: &str) -> Unfit {
    Unfit(format!(
        "something else is mounted at {path}; unmount it, or use another path"
    ))
}
