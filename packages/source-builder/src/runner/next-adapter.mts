/** As much as is read and written of Next.js' configuration. */
interface Config {
  output?: string | null
}

/**
 * Next.js loads it by NEXT_ADAPTER_PATH, from 16.2 on: a project that has not chosen an output itself is built into a server that brings
 * all it needs.
 *
 * @public
 */
export default {
  name: 'platform',
  modifyConfig: (config: Config): Config => ({ ...config, output: config.output ?? 'standalone' }),
}
