//! Block devices (CSI section "NodePublishVolume"), where `--block` asks for them.

use crate::conformance::case::{Area, Case, Effect, Ended, Need, case};
use crate::conformance::check::{Check, Stop};
use crate::conformance::workload::Kind;
use crate::csi::proto::controller_service_capability::rpc::Type as ControllerRpc;
use crate::csi::proto::volume_capability::access_mode::Mode;

use super::requests::block;
use super::using::there_and_back;

const NEEDS: &[Need] = &[
    Need::Block,
    Need::Node,
    Need::Can(ControllerRpc::CreateDeleteVolume),
];

pub(in crate::conformance) const CASES: &[Case] = &[
    case!(
        Block,
        "block/lifecycle",
        "A block volume is a device at its target path, keeps its data, and leaves no path behind",
        "NodePublishVolume",
        NEEDS,
        Creates,
        lifecycle
    ),
    case!(
        Block,
        "block/size",
        "A block volume's device has exactly the size of the volume",
        "CapacityRange",
        NEEDS,
        Creates,
        size
    ),
    case!(
        Block,
        "block/read-only",
        "A block volume published read-only can be read and not written",
        "NodePublishVolume",
        NEEDS,
        Creates,
        read_only
    ),
    case!(
        Block,
        "block/repeat",
        "A block volume published again is the same device, and one call undoes it",
        "NodePublishVolume",
        NEEDS,
        Creates,
        repeat
    ),
];

async fn lifecycle(check: &mut Check<'_>) -> Ended {
    let rule = "target_path is a block device once the volume is published";
    there_and_back(check, block(Mode::SingleNodeWriter), Kind::Device, rule).await
}

async fn size(check: &mut Check<'_>) -> Ended {
    let used = check.in_use(block(Mode::SingleNodeWriter)).await?;
    let capacity = u64::try_from(used.volume.capacity_bytes).unwrap_or_default();
    if capacity == 0 {
        let why = "the plugin does not say how large its volumes are";
        return Err(Stop::NotDemanded(why.to_owned()));
    }
    let size = check.size_of(&used).await?;
    let rule = format!("the device has the {capacity} bytes of the volume");
    check.hold(size >= capacity, &rule, &format!("{size} bytes"));
    check.advise(size <= capacity, &rule, &format!("{size} bytes"));
    Ok(())
}

async fn read_only(check: &mut Check<'_>) -> Ended {
    let used = check.in_use(block(Mode::SingleNodeWriter)).await?;
    check.write(&used, "written before").await?;
    check.prepare(Check::unpublish_request(&used)).await?;
    let mut publish = check.publish_request(&used);
    publish.readonly = true;
    check
        .must(publish, "a volume can be published read-only")
        .await?;
    let rule = "what is in the volume can be read";
    check.hold_data(&used, "written before", rule).await;
    let written = check.try_write(&used, "written read-only").await;
    let rule = "`readonly` is true: nothing can be written to the device";
    check.hold(written.is_err(), rule, "it was written");
    Ok(())
}

async fn repeat(check: &mut Check<'_>) -> Ended {
    let used = check.in_use(block(Mode::SingleNodeWriter)).await?;
    for _ in 0..3 {
        let publish = check.publish_request(&used);
        check
            .must(publish, "the volume is published there as asked for")
            .await?;
    }
    check
        .must(Check::unpublish_request(&used), "the volume is published")
        .await?;
    let kind = check.kind(&used.target).await?;
    let rule = "nothing is at target_path any more, however often the volume was published there";
    check.hold(kind == Kind::Missing, rule, &format!("{kind:?}"));
    Ok(())
}
