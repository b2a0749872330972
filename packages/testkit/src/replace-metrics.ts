import { register } from 'prom-client'

// A vitest setup file, for `npm run test:watch`: a module that is evaluated anew after a change brings its metrics again, and
// prom-client would refuse the names.

const kept = register as typeof register & { replacesMetrics?: true }
if (kept.replacesMetrics === undefined) {
  kept.replacesMetrics = true
  const registerMetric = register.registerMetric.bind(register)
  register.registerMetric = (metric) => {
    register.removeSingleMetric((metric as unknown as { name: string }).name)
    registerMetric(metric)
  }
}
