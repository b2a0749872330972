export type { PackLimits, TooLarge } from './limits.ts'
export { type LeftOut, type PackOptions, type PackPlan, planPack } from './plan.ts'
export {
  type DroppedFile,
  filesSource,
  type PackEntry,
  type PackFile,
  type PackLink,
  type PackSource,
} from './source.ts'
export { type Packable, zip } from './zip.ts'
