export {
  beginCodeSignIn,
  type CodeSignIn,
  type CodeSignInOptions,
  finishCodeSignIn,
  type FinishOptions,
} from './code.ts'
export { type DeviceCode, signInByDevice, type DeviceSignInOptions } from './device.ts'
export { signOut } from './sign-out.ts'
