//! Claims in random histories: mostly what is due, sometimes what is not.

use super::History;
use crate::claim::{
    Claim, ClaimEvent, ClaimKey, ClaimUsage, Intent, Known, SealedFlags, SetupInputs, Step,
    StepAnswer, Tombstone,
};
use crate::state::event::EventKind;
use crate::state::record::Phase;
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Bytes, Capability, ExternalNodeId, HostSession,
    NamespacedId, NodeId, RemoteVolume, SealedSecrets, VolumeAlias,
};

impl History {
    pub(super) fn any_claim_event(&mut self) -> Option<EventKind> {
        let node = NodeId::new(format!("node-{}", self.choose(3)));
        let alloc = AllocId::new(format!("alloc-{}", self.choose(8)));
        Some(match self.choose(28) {
            0..=2 => EventKind::AllocStarted { alloc, node },
            3 => EventKind::AllocEnded { alloc },
            4 => EventKind::AllocForgotten { alloc },
            5 => EventKind::NodeBooted { node, boot_id: format!("boot-{}", self.choose(2)) },
            6 => EventKind::NodeLost { node, reason: "fenced by an operator".to_owned() },
            7 => EventKind::NodeReturned { node },
            8 => EventKind::NodeSwept { node },
            9..=12 => self.any_grant()?,
            13 => EventKind::NodeConnected {
                node,
                session: HostSession::new(format!("session-{}", self.choose(3))),
                secret_hash: (self.choose(2) == 0).then(|| format!("hash-{}", self.choose(2))),
            },
            14 => EventKind::NodeDisconnected { node },
            15 => EventKind::NodeDown { node },
            16 => EventKind::LeaderStarted { origin: "another origin".to_owned() },
            _ => {
                let volume = self.any_claimed()?;
                let event = Box::new(self.any_change(&volume)?);
                EventKind::Claim { volume, event }
            }
        })
    }

    fn nth<T>(&mut self, mut all: impl ExactSizeIterator<Item = T>) -> Option<T> {
        let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
        let chosen = usize::try_from(self.choose(count)).ok()?;
        all.nth(chosen)
    }

    fn any_claimed(&mut self) -> Option<RemoteVolume> {
        let claimed: Vec<_> = self.state.all_claims().map(|r| r.volume.clone()).collect();
        self.nth(claimed.into_iter())
    }

    fn any_registered(&mut self) -> Option<(NamespacedId, RemoteVolume)> {
        let records = self.state.records();
        let registered = records.filter(|record| record.phase == Phase::Registered);
        let volumes: Vec<_> = registered
            .filter_map(|record| Some((record.key().clone(), record.remote_volume()?)))
            .collect();
        self.nth(volumes.into_iter())
    }

    fn any_grant(&mut self) -> Option<EventKind> {
        let (key, volume) = self.any_registered()?;
        let allocs = self.state.allocs();
        let placed: Vec<_> = allocs.map(|(id, alloc)| (id.clone(), alloc.node.clone())).collect();
        let (alloc, node) = self.nth(placed.into_iter())?;
        let capability = Capability {
            access_mode: AccessMode::MultiNodeMultiWriter,
            attachment_mode: AttachmentMode::FileSystem,
        };
        let claim = Claim {
            external_node: Some(ExternalNodeId::new(format!("i-{node}"))),
            node,
            usage: ClaimUsage::new(capability, "ext4", SealedFlags::default()),
            read_only: self.choose(2) == 0,
            intent: Intent::Hold,
            published: Known::No,
            call: None,
            volume_context: None,
            target: None,
            granted_at: 7,
            problem: None,
            volume: key.clone(),
        };
        let alias = VolumeAlias::new(key.id.as_str());
        let event = Box::new(ClaimEvent::Granted {
            key: ClaimKey { alloc, alias },
            claim: Box::new(claim),
        });
        Some(EventKind::Claim { volume, event })
    }

    fn any_change(&mut self, volume: &RemoteVolume) -> Option<ClaimEvent> {
        let record = self.state.claims(volume)?.clone();
        let keys: Vec<_> = record.claims.claims.keys().cloned().collect();
        let nodes: Vec<_> = record.claims.nodes().into_iter().cloned().collect();
        Some(match self.choose(16) {
            0 | 1 => ClaimEvent::ReleaseRequested {
                key: self.nth(keys.into_iter())?,
                reason: "the allocation has ended".to_owned(),
            },
            2 => ClaimEvent::NodeRebooted { node: self.nth(nodes.into_iter())? },
            8 => ClaimEvent::AccessChanged {
                key: self.nth(keys.into_iter())?,
                read_only: self.choose(2) == 0,
            },
            6 | 7 => ClaimEvent::MountsLost {
                node: self.nth(nodes.into_iter())?,
                targets: keys.into_iter().collect(),
                staging: self.choose(2) == 0,
                reason: "nothing is mounted there".to_owned(),
            },
            3 => ClaimEvent::ExpansionRequired { to: Bytes::from_wire(1 << 31) },
            4 if self.choose(4) == 0 => {
                let gone = self.any_registered()?.0;
                ClaimEvent::Orphaned {
                    registration: (self.choose(3) > 0).then(|| gone.clone()),
                    tombstone: Box::new(Tombstone {
                        volume: gone,
                        secrets: SealedSecrets::default(),
                        since: 9,
                    }),
                }
            }
            _ => self.any_step_event(volume)?,
        })
    }

    fn any_step_event(&mut self, volume: &RemoteVolume) -> Option<ClaimEvent> {
        let due: Vec<_> = self.state.claim_steps(volume).into_iter().collect();
        let step = self.nth(due.into_iter())?;
        let record = self.state.claims(volume)?;
        let started = record.claims.call(&step).map(|call| call.index);
        match (step, started, self.choose(6)) {
            (Step::Release(key), _, _) => Some(ClaimEvent::Released { key }),
            (Step::AssumeNodeGone(node), _, _) => Some(ClaimEvent::NodeAssumedGone { node }),
            (step, _, 0) => Some(ClaimEvent::StepFailed {
                step,
                error: "UNAVAILABLE: try again".to_owned(),
                help: Some("check the plugin".to_owned()),
                exhausted: true,
            }),
            (step, Some(started), 1..=3) => {
                Some(ClaimEvent::StepDone { answer: answer(&step), step, started })
            }
            (step, _, chance) => Some(ClaimEvent::StepStarted {
                inputs: step.is_setup().then(|| Box::new(inputs(chance))),
                step,
                instance: AllocId::new(format!("task-{chance}")),
            }),
        }
    }
}

fn inputs(chance: u64) -> SetupInputs {
    SetupInputs {
        volume_context: [("pool".to_owned(), format!("pool-{chance}"))].into(),
        external_node: None,
        attaches_read_only: chance == 5,
    }
}

fn answer(step: &Step) -> StepAnswer {
    match step {
        Step::ControllerPublish(_) => {
            StepAnswer { context: [("device".to_owned(), "sdb".to_owned())].into(), target: None }
        }
        Step::NodePublish(key) => StepAnswer {
            context: Default::default(),
            target: Some(format!("/csi/{}/{}", key.alloc, key.alias).into()),
        },
        _ => StepAnswer::default(),
    }
}
