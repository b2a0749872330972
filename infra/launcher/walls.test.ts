import { describe, expect, test } from 'vitest'
import { chooseBuildWalls, chooseFunctionWalls } from './walls.ts'

const all = { files: undefined, network: undefined }
const noNetwork = { files: undefined, network: 'not installed: pasta' }
const nothing = { files: 'the program bwrap is not installed', network: 'not installed: pasta' }

describe('Functions get the highest walls that a machine can have', () => {
  test.each([
    ['all walls', 'auto', undefined, all, 'public', undefined],
    [
      'no walls of the network',
      'auto',
      undefined,
      noNetwork,
      'host',
      /^Functions reach .*install passt.*\(not installed: pasta\)\.$/,
    ],
    [
      'no walls at all',
      'auto',
      undefined,
      nothing,
      'host',
      /^Functions run as plain processes, .*: install bubblewrap \(the program bwrap is not installed\)\.$/,
    ],
    ['no network, which needs no program', 'auto', 'none', noNetwork, 'none', undefined],
    ['the network of the machine, as asked for', 'auto', 'host', all, 'host', /leave FUNCTION_EGRESS out/],
    [
      'plain processes, as asked for',
      'none',
      undefined,
      all,
      'host',
      /^Functions run as plain processes, .*leave FUNCTION_SANDBOX out/,
    ],
    [
      'walls that are required and missing',
      'required',
      undefined,
      nothing,
      'host',
      /^Functions cannot run: install bubblewrap/,
    ],
    [
      'a closed network without the files',
      'auto',
      'public',
      nothing,
      'public',
      /^Functions cannot run: install bubblewrap/,
    ],
    [
      'a closed network that cannot be had',
      'auto',
      'public',
      noNetwork,
      'public',
      /^Functions cannot run, because private .*leave FUNCTION_EGRESS out\.$/,
    ],
  ] as const)('%s', (_, sandbox, wanted, obstacles, egress, warning) => {
    const walls = chooseFunctionWalls({ sandbox, egress: wanted }, obstacles)
    expect(walls).toEqual({
      sandbox,
      egress,
      warnings: warning === undefined ? [] : [expect.stringMatching(warning)],
    })
  })
})

describe('builds get the widest network that a machine can close the rest of', () => {
  test.each([
    ['all walls', undefined, all, 'public', undefined],
    [
      'no walls of the network',
      undefined,
      noNetwork,
      'registry',
      /^Builds reach package registries .*\(not installed: pasta\)/,
    ],
    ['registries, as asked for', 'registry', noNetwork, 'registry', undefined],
    [
      'a network that cannot be had',
      'public',
      noNetwork,
      'public',
      /^Source cannot be built, because private .*leave BUILD_EGRESS out\.$/,
    ],
    [
      'no walls at all',
      undefined,
      nothing,
      'registry',
      /^Source cannot be built, .*: install bubblewrap \(the program bwrap/,
    ],
  ] as const)('%s', (_, wanted, obstacles, egress, warning) => {
    expect(chooseBuildWalls(wanted, obstacles)).toEqual({
      egress,
      warnings: warning === undefined ? [] : [expect.stringMatching(warning)],
    })
  })
})
