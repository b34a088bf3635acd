//! Sources of new IDs and of randomness.

/// Generates unique IDs.
pub trait IdSource: Send + Sync {
    /// Returns a new UUID in text form.
    fn uuid(&self) -> String;

    /// Returns a number in 0..1 for jitter.
    fn jitter(&self) -> f64;
}

/// IDs and jitter from the operating system's random number generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl IdSource for RandomIds {
    fn uuid(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    fn jitter(&self) -> f64 {
        let bits = u32::try_from(uuid::Uuid::new_v4().as_u128() & u128::from(u32::MAX))
            .unwrap_or_default();
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }
}
