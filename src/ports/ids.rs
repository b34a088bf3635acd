//! Where new IDs and chance come from.

/// Makes IDs that nobody else has made.
pub trait IdSource: Send + Sync {
    /// A new UUID in its usual text form.
    fn uuid(&self) -> String;

    /// A number in 0..1, for jitter.
    fn jitter(&self) -> f64;
}

/// IDs and jitter from the operating system's random numbers.
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
