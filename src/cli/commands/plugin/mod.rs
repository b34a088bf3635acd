//! `plugin …`.

pub(crate) mod status;
