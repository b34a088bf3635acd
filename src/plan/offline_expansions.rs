//! Expansions of volumes in use whose plugin expands offline only, as its file says. No server reports that.

use super::action::{Action, PlannedVolume};
use super::inputs::ObservedState;
use nomad_csi_model::Volume;
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// Blocks every expansion that the plugin would refuse while the volume is in use.
pub(super) fn block_offline_expansions(volumes: &mut [PlannedVolume], observed: &ObservedState) {
    for planned in volumes.iter_mut().filter(|one| matches!(one.action, Action::Expand(_))) {
        let existing = observed.volumes.get(&planned.key);
        let refused = existing.and_then(|volume| refused(planned, volume, observed));
        if let Some(refused) = refused {
            planned.block(vec![refused]);
        }
    }
}

fn refused(
    planned: &PlannedVolume,
    volume: &Volume,
    observed: &ObservedState,
) -> Option<Diagnostic> {
    let claims = volume.read_allocs.len() + volume.write_allocs.len();
    let snapshot = observed.plugin_snapshots.get(&volume.plugin_id)?;
    if claims == 0 || !snapshot.expands_offline_only {
        return None;
    }
    let message = format!(
        "cannot expand volume {}: it is in use, and plugin `{}` expands volumes offline only",
        planned.key.quoted(),
        volume.plugin_id
    );
    let problem = Diagnostic::error(Code::PlanOfflineExpansion, message);
    let problem = match &planned.spec {
        Some(spec) => problem.label(spec.field_span("capacity_min"), ""),
        None => problem,
    };
    let users = match claims {
        1 => "1 allocation uses the volume".to_owned(),
        count => format!("{count} allocations use the volume"),
    };
    Some(problem.note(users).note(snapshot.said()).help(Code::PlanOfflineExpansion.advice()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin_snapshots::read_snapshot;
    use crate::rules::MergeRules;
    use crate::samples::{bytes, codes, desired, existing, observed, one, plugin};
    use nomad_csi_model::AllocId;
    use nomad_csi_spec::Purpose;

    #[test]
    fn an_offline_expansion_of_a_volume_in_use_is_blocked() {
        for (kinds, is_used, is_blocked) in [
            (r#"["OFFLINE"]"#, true, true),
            (r#"["OFFLINE"]"#, false, false),
            (r#"["ONLINE","OFFLINE"]"#, true, false),
            ("[]", true, false),
        ] {
            let mut volume = existing();
            if is_used {
                volume.write_allocs = [AllocId::new("a1")].into();
            }
            let text = format!(
                r#"{{"version":1,"name":"csi.example","vendor_version":"1","services":["CONTROLLER_SERVICE"],
                    "volume_expansion":{kinds},"controller_capabilities":["EXPAND_VOLUME"],"node_capabilities":null}}"#
            );
            let file = read_snapshot("hostpath.plugin.json", "hostpath", &text).unwrap();
            let mut observed = observed(Some(volume), plugin(|_| ()));
            observed.plugin_snapshots = [file].into_iter().collect();
            let mut request = desired();
            request.capacity.min = bytes(1500);
            let planned = one(request, &observed, MergeRules::NOMAD, Purpose::ByExternalId);
            match is_blocked {
                true => assert_eq!(codes(&planned), [Code::PlanOfflineExpansion.as_str()]),
                false => assert!(matches!(planned.action, Action::Expand(_)), "{planned:?}"),
            }
        }
    }
}
