export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const quantile = (values, q) =>
  Float64Array.from(values).sort()[Math.min(values.length - 1, Math.floor(values.length * q))];
export const median = (values) => quantile(values, 0.5);
export const show = (value) => value.toFixed(1);
