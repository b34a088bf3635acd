//! Whether the volumes exist that a group names.

use std::collections::BTreeSet;

use super::uses::VolumeUse;
use super::volumes::LintVolumes;
use nomad_csi_model::VolumeId;
use nomad_csi_model::diagnostic::{Code, Diagnostic, closest_match};

/// The number of missing volumes that a message names.
const SHOWN: usize = 3;

/// Returns the IDs of the existing volumes that the allocations of a group use.
pub(super) fn used_ids(one: VolumeUse<'_>, volumes: &LintVolumes) -> Vec<VolumeId> {
    if !one.volume.per_alloc {
        return vec![VolumeId::new(&one.volume.source)];
    }
    let count = one.count();
    let indexes = volumes.indexes(one.namespace(), &one.volume.source);
    let used = indexes.into_iter().filter(|index| *index < count);
    used.map(|index| one.volume.source_of(index)).collect()
}

/// Returns what is wrong if volumes of a group do not exist.
pub(super) fn missing_volumes(one: VolumeUse<'_>, volumes: &LintVolumes) -> Option<Diagnostic> {
    let source = &one.volume.source;
    let indexes = volumes.indexes(one.namespace(), source);
    let has_plain = volumes.get(one.namespace(), &VolumeId::new(source)).is_some();
    match (one.volume.per_alloc, has_plain, indexes.is_empty()) {
        (false, true, _) => None,
        (false, false, false) => Some(without_index(one, volumes, &indexes)),
        (false, false, true) => Some(missing(one, volumes, source)),
        (true, _, false) => missing_indexes(one, volumes, &indexes),
        (true, true, true) => Some(with_index(one, volumes)),
        (true, false, true) if one.count() > 0 => {
            Some(missing(one, volumes, one.volume.source_of(0).as_str()))
        }
        (true, false, true) => None,
    }
}

/// No volume of this ID, and none that differs by its index.
fn missing(one: VolumeUse<'_>, volumes: &LintVolumes, id: &str) -> Diagnostic {
    let namespace = one.namespace();
    let what = format!("volume `{id}` is missing in namespace `{namespace}`");
    let problem =
        one.error(Code::JobVolumeMissing, &what).label(one.field("source"), "no such volume");
    if let Some(other) = volumes.namespaces_with(id).next() {
        return problem
            .note(format!(
                "namespace `{other}` has a volume `{id}`; a job uses those of its own namespace"
            ))
            .help(format!(
                "set `namespace = \"{other}\"` in the job, or declare the volume in `{namespace}`"
            ));
    }
    match closest_match(id, volumes.ids(namespace)) {
        Some(near) if one.volume.per_alloc => {
            let near = near.rsplit_once('[').map_or(near, |(source, _)| source);
            problem.help(format!("did you mean `{near}`?"))
        }
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help("declare the volume, or correct `source`"),
    }
}

/// Without `per_alloc`, and all volumes of the source have an index.
fn without_index(one: VolumeUse<'_>, volumes: &LintVolumes, indexes: &BTreeSet<u32>) -> Diagnostic {
    let source = &one.volume.source;
    let first = indexes.first().copied().unwrap_or_default();
    let existing = VolumeId::new(format!("{source}[{first}]"));
    let what = format!("volume `{source}` does not exist, but `{existing}` does");
    let problem =
        one.error(Code::JobVolumeSuffix, &what).label(one.field("source"), "used without an index");
    at_volume(problem, one, volumes, &existing, "declared with an index")
        .help(format!("set `per_alloc = true`, or `source = \"{existing}\"`"))
}

/// With `per_alloc`, and the only volume of the source has no index.
fn with_index(one: VolumeUse<'_>, volumes: &LintVolumes) -> Diagnostic {
    let source = &one.volume.source;
    let first = one.volume.source_of(0);
    let what = format!("volume `{first}` does not exist, but `{source}` does");
    let problem = one
        .error(Code::JobVolumeSuffix, &what)
        .label(one.field("per_alloc"), format!("uses `{first}`"));
    at_volume(problem, one, volumes, &VolumeId::new(source), "declared without an index")
        .help("remove `per_alloc`, or set `count` in the block that declares the volume")
}

/// With `per_alloc`, and some of the volumes do not exist.
fn missing_indexes(
    one: VolumeUse<'_>,
    volumes: &LintVolumes,
    indexes: &BTreeSet<u32>,
) -> Option<Diagnostic> {
    let count = one.count();
    let have = indexes.range(..count).count();
    let lacking = usize::try_from(count).unwrap_or(usize::MAX) - have;
    if lacking == 0 {
        return None;
    }
    // At most all existing volumes are skipped.
    let all = (0..count).filter(|index| !indexes.contains(index));
    let named: Vec<String> =
        all.take(SHOWN).map(|index| format!("`{}`", one.volume.source_of(index))).collect();
    let more = match lacking - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (word, verb) = if lacking == 1 { ("volume", "is") } else { ("volumes", "are") };
    let what = format!(
        "{word} {}{more} {verb} missing in namespace `{}`",
        named.join(", "),
        one.namespace()
    );
    let last = one.volume.source_of(count - 1);
    let first = one.volume.source_of(0);
    let uses = match count {
        1 => format!("`per_alloc` with 1 allocation uses `{first}`"),
        _ => format!("`per_alloc` with {count} allocations uses `{first}` to `{last}`"),
    };
    let problem = one.error(Code::JobVolumeIndex, &what).label(one.span(), uses);
    let surplus = indexes.range(count..).count();
    let problem = match surplus {
        0 => problem,
        1 => problem.note("1 volume has an index that no allocation of the group uses"),
        _ => problem
            .note(format!("{surplus} volumes have an index that no allocation of the group uses")),
    };
    let declared = indexes.iter().find_map(|index| {
        let id = one.volume.source_of(*index);
        let places = volumes.get(one.namespace(), &id)?.places.as_ref()?;
        Some((places.count?, id))
    });
    let Some((place, id)) = declared else {
        return Some(problem.help("declare the missing volumes, or lower `count` of the group"));
    };
    // The indexes of one `count` have no gap.
    let declares = match indexes.len() {
        1 => format!("declares `{id}`"),
        several => format!("declares {several} volumes"),
    };
    let help = format!("set `count = {count}` here, or `count = {}` in the group", indexes.len());
    Some(problem.label(place, declares).help(help))
}

/// Marks where a volume is declared, if its file is shown.
fn at_volume(
    problem: Diagnostic,
    one: VolumeUse<'_>,
    volumes: &LintVolumes,
    id: &VolumeId,
    label: &str,
) -> Diagnostic {
    let volume = volumes.get(one.namespace(), id);
    match volume.and_then(|volume| volume.places.as_ref()) {
        Some(places) => problem.label(places.block, label),
        None => problem,
    }
}
