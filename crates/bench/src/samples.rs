//! Repeated measurements of one thing. Pure.

use std::time::Duration;

/// Measurements in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    /// In milliseconds.
    pub(crate) fn add_time(&mut self, time: Duration) {
        self.add(time.as_secs_f64() * 1e3);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn first(&self, count: usize) -> Self {
        Self(self.0.iter().copied().take(count).collect())
    }

    pub(crate) fn last(&self, count: usize) -> Self {
        Self(self.0[self.0.len().saturating_sub(count)..].to_vec())
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Nine in ten are lower.
    pub(crate) fn p90(&self) -> f64 {
        self.quantile(0.9)
    }

    /// 99 in a hundred are lower.
    pub(crate) fn p99(&self) -> f64 {
        self.quantile(0.99)
    }

    /// Nine in ten are higher.
    pub(crate) fn p10(&self) -> f64 {
        self.quantile(0.1)
    }

    /// Interpolated between the two nearest measurements. NaN if there are none.
    fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else {
            return f64::NAN;
        };
        let place = share * last as f64;
        let (below, above) = (
            sorted[place.floor() as usize],
            sorted[place.ceil() as usize],
        );
        below + (above - below) * place.fract()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let samples = Samples(vec![5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!(samples.median(), 3.0);
        assert_eq!(Samples(vec![1.0, 2.0]).median(), 1.5);
        assert!((samples.p90() - 4.6).abs() < 1e-9);
        assert!((samples.p10() - 1.4).abs() < 1e-9);
        assert!(Samples::default().median().is_nan());
        assert_eq!(samples.first(2).median(), 3.0);
        assert_eq!(samples.last(2).median(), 3.0);
    }
}
