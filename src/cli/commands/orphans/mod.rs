//! `orphans`: what a provider has and nobody registered; registers it, or deletes it.
//!
//! The joining and the steps are `reconcile`'s. Here somebody is shown what is there and what would be
//! done, and agrees to each volume by its name. Everything is checked before anything is done; one
//! volume that may not be deleted spares all.

mod adopt;
mod delete;
mod look;
mod work;

pub(crate) use work::run;
