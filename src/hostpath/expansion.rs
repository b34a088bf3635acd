//! Making volumes larger, also while they are used.
//!
//! The controller makes the file longer and says whether the node has to do something: a volume in
//! use needs its device, and its file system, to follow; one that is not used follows when it is
//! staged. A volume whose file system cannot grow while it is used is refused, before anything is
//! changed, and the plugin advertises that ([`IdentityService`](super::identity::IdentityService)).
//! A volume never becomes smaller (`csi-spec` 5.15, 5.22).

use std::path::PathBuf;
use std::sync::Arc;

use super::abilities::Ability;
use super::catalog::Backing;
use super::error::{ExpandVolumeError, Invalid, Machine, NotThere, Unfit};
use super::plugin::Plugin;
use super::size::{self, OutOfRange, Range};
use super::usage::Usage;
use super::volume::{At, Volume};
use super::volumes;

/// How large a volume is now, and whether the node has something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expanded {
    pub(super) bytes: u64,
    pub(super) needs_node: bool,
}

/// ControllerExpandVolume.
pub(super) async fn expand(
    plugin: Arc<Plugin>,
    id: String,
    range: Range,
    usage: Option<Usage>,
) -> Result<Expanded, ExpandVolumeError> {
    let mut volume = Volume::open::<ExpandVolumeError>(&plugin, id).await?;
    suits(&volume, usage.as_ref())?;
    let is_used = !volume.devices().await?.is_empty();
    if is_used && range.required > volume.record.content.bytes {
        grows_in_use(&volume).await?;
    }
    grow_file(&mut volume, range).await?;
    let has_node = plugin.has(Ability::Node) && plugin.has(Ability::NodeExpand);
    if is_used && !has_node {
        // Nobody will ask the node to.
        resize_devices(&volume).await?;
        grow_file_system(&mut volume).await?;
    }
    Ok(Expanded {
        bytes: volume.record.content.bytes,
        needs_node: is_used && has_node,
    })
}

fn suits(volume: &Volume, usage: Option<&Usage>) -> Result<(), Invalid> {
    match usage.and_then(|usage| usage.misfit(&volume.record.content)) {
        Some(misfit) => Invalid::because(misfit),
        None => Ok(()),
    }
}

async fn grows_in_use(volume: &Volume) -> Result<(), ExpandVolumeError> {
    let looked = volume
        .plugin
        .files("look what the machine offers", |plugin| {
            Ok(plugin.host.storage.offers())
        });
    let offers = looked.await?;
    match volume.record.content.file_system {
        Some(kind) if offers.grow_unmounted.contains(&kind) => {
            Err(only_unmounted(volume.id()).into())
        }
        Some(_) | None => Ok(()),
    }
}

fn only_unmounted(id: &str) -> Unfit {
    Unfit(format!(
        "volume {id} is in use, and its file system grows while it is mounted only with the capability CAP_SYS_RESOURCE, which this plugin's process lacks: unpublish and unstage the volume, then expand it, and it grows when it is staged next"
    ))
}

/// Makes the file longer, and then the record says so: a crash between leaves a file that is longer
/// than the volume, which harms nothing and is used when the call is repeated. Nobody else promises
/// room meanwhile.
async fn grow_file(volume: &mut Volume, range: Range) -> Result<(), ExpandVolumeError> {
    let now = volume.record.content.bytes;
    if volume.backing() == Backing::Directory {
        return Err(OutOfRange(format!(
            "volume {} is a directory and has no size: it can hold what its file system has room for",
            volume.id()
        ))
        .into());
    }
    if range.limit != 0 && range.limit < now {
        return Err(OutOfRange(format!(
            "volume {} has {now} bytes, and a volume does not become smaller",
            volume.id()
        ))
        .into());
    }
    if range.required <= now {
        return Ok(());
    }
    let bytes = size::decide(range, now, now)?;
    let mut record = volume.record.clone();
    record.content.bytes = bytes;
    volume.record = volume
        .plugin
        .blocking(move |plugin| {
            let _promising = plugin.promise();
            volumes::has_room::<ExpandVolumeError>(plugin, bytes - now)?;
            let grown = plugin.images.grow_file(&record.id, bytes);
            grown.map_err(Machine::files("make the volume's file longer"))?;
            plugin.catalog.put(&record).map_err(Machine::from)?;
            Ok::<_, ExpandVolumeError>(record)
        })
        .await?;
    tracing::info!(volume.external_id = %volume.id(), bytes, "made a volume larger");
    Ok(())
}

/// NodeExpandVolume: device and file system follow the file.
pub(super) async fn follow(
    plugin: Arc<Plugin>,
    id: String,
    path: String,
    range: Range,
    usage: Option<Usage>,
) -> Result<u64, ExpandVolumeError> {
    let mut volume = Volume::open::<ExpandVolumeError>(&plugin, id).await?;
    let is_there = match volume.places.get(&path) {
        None => false,
        Some(place) => {
            matches!(volume.at(&path).await?, At::Volume(_))
                || volume.is_block_staged(place).await?
        }
    };
    if !is_there {
        let id = volume.record.id;
        return Err(NotThere { id, path }.into());
    }
    suits(&volume, usage.as_ref())?;
    if volume.backing() == Backing::Directory {
        return Ok(0);
    }
    // Without a controller that does it, the node makes the file longer itself.
    if range.required > volume.record.content.bytes && plugin.has(Ability::Expand) {
        return Err(OutOfRange(format!(
            "volume {} has {} bytes; let the controller expand it first",
            volume.id(),
            volume.record.content.bytes
        ))
        .into());
    }
    grow_file(&mut volume, range).await?;
    resize_devices(&volume).await?;
    grow_file_system(&mut volume).await?;
    Ok(volume.record.content.bytes)
}

async fn resize_devices(volume: &Volume) -> Result<(), Machine> {
    let devices = volume.devices().await?;
    volume
        .plugin
        .files("let loop devices grow", move |plugin| {
            devices
                .iter()
                .try_for_each(|device| plugin.host.storage.resize(&device.path))
        })
        .await
}

async fn grow_file_system(volume: &mut Volume) -> Result<(), ExpandVolumeError> {
    let content = volume.record.content;
    let Some(kind) = content.file_system else {
        return Ok(());
    };
    if content.file_system_bytes >= content.bytes {
        return Ok(());
    }
    let mount = volume.first_mount().await?;
    let writable = mount.filter(|entry| !entry.flags.read_only);
    let Some(mount) = writable.map(|entry| entry.target) else {
        return Err(Unfit(format!(
            "the file system of volume {} cannot grow while it is mounted read-only; it grows when it is staged next",
            volume.id()
        ))
        .into());
    };
    let (at, bytes): (PathBuf, u64) = (mount, content.bytes);
    let grown = volume
        .plugin
        .files("let the file system grow", move |plugin| {
            plugin.host.storage.grow_file_system(&at, kind, bytes)
        });
    match grown.await {
        Err(error) if error.is_permission_denied() => {
            return Err(only_unmounted(volume.id()).into());
        }
        grown => grown?,
    }
    volume.record.content.file_system_bytes = content.bytes;
    volume.save().await?;
    Ok(())
}
