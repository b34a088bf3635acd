//! The release of a claim that a server keeps after its allocation has ended.
//!
//! A request to detach a volume names a node and no allocation. Since 1.2.13, 1.3.6 and 1.4, Nomad first looks up
//! the allocation, fails with `Unknown allocation`, and changes nothing: it is the same answer for a volume with
//! claims and for one without. There only Nomad itself releases, which repeats what failed.

use nomad_csi_model::ServerVersion;

/// The effect of a request to detach a volume from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetachRule {
    /// The server releases what ended allocations left on the node.
    Releases,
    /// The server never carries it out.
    NeverWorks,
    /// The version of the server is unknown.
    Unknown,
}

impl DetachRule {
    /// Returns the rule of a Nomad server of this version.
    pub fn of_nomad(version: &ServerVersion) -> Self {
        let works = match (version.major, version.minor) {
            (1, 2) => !version.is_at_least(1, 2, 13),
            _ => !version.is_at_least(1, 3, 6),
        };
        match works {
            true => Self::Releases,
            false => Self::NeverWorks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nomad_detaches_on_request_only_before_it_looks_up_the_allocation() {
        for (version, expected) in [
            ("1.1.0", DetachRule::Releases),
            ("1.1.18", DetachRule::Releases),
            ("1.2.0", DetachRule::Releases),
            ("1.2.12", DetachRule::Releases),
            ("1.2.13", DetachRule::NeverWorks),
            ("1.2.16", DetachRule::NeverWorks),
            ("1.3.0", DetachRule::Releases),
            ("1.3.5", DetachRule::Releases),
            ("1.3.6", DetachRule::NeverWorks),
            ("1.4.0", DetachRule::NeverWorks),
            ("1.9.7", DetachRule::NeverWorks),
            ("1.10.0", DetachRule::NeverWorks),
            ("2.0.0", DetachRule::NeverWorks),
            ("2.0.5+ent", DetachRule::NeverWorks),
            ("2.0.6-dev", DetachRule::NeverWorks),
            ("3.0.0", DetachRule::NeverWorks),
        ] {
            let parsed = ServerVersion::parse(version).expect("the version is valid");
            assert_eq!(DetachRule::of_nomad(&parsed), expected, "{version}");
        }
    }
}
