export {
  beginCodeSignIn,
  type CodeSignIn,
  type CodeSignInOptions,
  finishCodeSignIn,
  type FinishOptions,
} from './code.ts'
export {
  beginDeviceSignIn,
  type BeginDeviceOptions,
  type DeviceSignIn,
  type DeviceSignInOptions,
  finishDeviceSignIn,
  type FinishDeviceOptions,
  signInByDevice,
} from './device.ts'
export { prepareLeaving } from './leave.ts'
export { signOut } from './sign-out.ts'
export { signOutUrl, type SignOutUrlOptions } from './sign-out-url.ts'
export { type Claims, userInfo } from './user-info.ts'
