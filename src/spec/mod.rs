//! Text to wanted volumes.

mod volume_spec;

pub use volume_spec::VolumeSpec;
